"""Rewrites LSTM, GRU and RNN, and unrolled scans."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.recurrent.dynamic_quantize_lstm import dynamic_quantize_lstm_rule
from trtsmith.converter.rewrite.rules.recurrent.recurrent_forms import recurrent_rule
from trtsmith.converter.rewrite.rules.recurrent.unrolled_scan import scan_gate_rule, unrolled_scan_rule

RULES: tuple[NodeRule, ...] = (
    dynamic_quantize_lstm_rule,
    recurrent_rule,
    unrolled_scan_rule,
    scan_gate_rule,
)

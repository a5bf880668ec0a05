"""Rewrites LSTM, GRU and RNN."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.recurrent.dynamic_quantize_lstm import DYNAMIC_QUANTIZE_LSTM
from trtsmith.converter.rewrite.rules.recurrent.recurrent_forms import RECURRENT

RULES: tuple[NodeRule, ...] = (
    DYNAMIC_QUANTIZE_LSTM,
    RECURRENT,
)

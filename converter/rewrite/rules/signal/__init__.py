"""Rewrites Fourier transforms and related operators."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.signal.dft import dft_rule
from trtsmith.converter.rewrite.rules.signal.mel_weights import mel_weights_rule
from trtsmith.converter.rewrite.rules.signal.stft import stft_rule

RULES: tuple[NodeRule, ...] = (
    dft_rule,
    stft_rule,
    mel_weights_rule,
)

"""Rewrites Fourier transforms and what belongs to them."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.signal.dft import DFT, STFT
from trtsmith.converter.rewrite.rules.signal.mel_weights import MEL_WEIGHTS

RULES: tuple[NodeRule, ...] = (
    DFT,
    STFT,
    MEL_WEIGHTS,
)

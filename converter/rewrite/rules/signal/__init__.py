"""Rewrites Fourier transforms and what belongs to them."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.signal.dft import DFT
from trtsmith.converter.rewrite.rules.signal.mel_weights import MEL_WEIGHTS
from trtsmith.converter.rewrite.rules.signal.stft import STFT

RULES: tuple[NodeRule, ...] = (
    DFT,
    STFT,
    MEL_WEIGHTS,
)

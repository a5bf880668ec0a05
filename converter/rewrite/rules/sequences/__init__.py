"""Rewrites operators on sequences and optionals."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.sequences.static_sequences import OPTIONALS, SEQUENCE_MAP, SEQUENCES

RULES: tuple[NodeRule, ...] = (
    SEQUENCES,
    SEQUENCE_MAP,
    OPTIONALS,
)

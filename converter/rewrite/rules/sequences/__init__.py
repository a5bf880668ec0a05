"""Rewrites operators on sequences and optionals."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.sequences.optionals import OPTIONALS
from trtsmith.converter.rewrite.rules.sequences.sequence_map import SEQUENCE_MAP
from trtsmith.converter.rewrite.rules.sequences.static_sequences import SEQUENCES

RULES: tuple[NodeRule, ...] = (
    SEQUENCES,
    SEQUENCE_MAP,
    OPTIONALS,
)

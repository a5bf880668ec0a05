"""Rewrites operators on sequences and optionals."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.sequences.static_sequences import (
    optionals_rule,
    sequence_map_rule,
    sequences_rule,
)

RULES: tuple[NodeRule, ...] = (
    sequences_rule,
    sequence_map_rule,
    optionals_rule,
)

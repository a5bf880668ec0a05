"""Rewrites operators that draw random numbers."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.random.random_values import (
    random_broadcast_rule,
    random_values_rule,
    training_dropout_rule,
)

RULES: tuple[NodeRule, ...] = (
    random_values_rule,
    random_broadcast_rule,
    training_dropout_rule,
)

"""Rewrites operators that draw random numbers."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.random.random_values import RANDOM_VALUES, TRAINING_DROPOUT

RULES: tuple[NodeRule, ...] = (
    RANDOM_VALUES,
    TRAINING_DROPOUT,
)

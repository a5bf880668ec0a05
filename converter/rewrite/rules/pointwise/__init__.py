"""Rewrites operators that look at one element at a time."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.pointwise.functions import CONSTANT_LOGIC, FLOAT_MOD, FUNCTIONS
from trtsmith.converter.rewrite.rules.pointwise.ranges_and_gates import (
    HALF_GATES,
    HALF_RANGE,
    SCALAR_RANGE,
    WIDE_ACTIVATIONS,
)

RULES: tuple[NodeRule, ...] = (
    FUNCTIONS,
    FLOAT_MOD,
    WIDE_ACTIVATIONS,
    SCALAR_RANGE,
    HALF_RANGE,
    HALF_GATES,
    CONSTANT_LOGIC,
)

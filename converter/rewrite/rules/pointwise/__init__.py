"""Rewrites operators that look at one element at a time."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.pointwise.constant_logic import CONSTANT_LOGIC
from trtsmith.converter.rewrite.rules.pointwise.float_mod import FLOAT_MOD
from trtsmith.converter.rewrite.rules.pointwise.functions import FUNCTIONS
from trtsmith.converter.rewrite.rules.pointwise.half_gates import HALF_GATES
from trtsmith.converter.rewrite.rules.pointwise.half_range import HALF_RANGE
from trtsmith.converter.rewrite.rules.pointwise.scalar_range import SCALAR_RANGE
from trtsmith.converter.rewrite.rules.pointwise.wide_activations import WIDE_ACTIVATIONS

RULES: tuple[NodeRule, ...] = (
    FUNCTIONS,
    FLOAT_MOD,
    WIDE_ACTIVATIONS,
    SCALAR_RANGE,
    HALF_RANGE,
    HALF_GATES,
    CONSTANT_LOGIC,
)

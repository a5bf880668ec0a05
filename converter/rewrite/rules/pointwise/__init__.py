"""Rewrites operators on single elements."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.pointwise.branch_sums import branch_sums_rule
from trtsmith.converter.rewrite.rules.pointwise.functions import (
    constant_logic_rule,
    float_mod_rule,
    functions_rule,
)
from trtsmith.converter.rewrite.rules.pointwise.half_gates import half_gates_rule
from trtsmith.converter.rewrite.rules.pointwise.product_activations import product_activations_rule
from trtsmith.converter.rewrite.rules.pointwise.ranges import half_range_rule, scalar_range_rule
from trtsmith.converter.rewrite.rules.pointwise.wide_activations import wide_activations_rule

RULES: tuple[NodeRule, ...] = (
    functions_rule,
    float_mod_rule,
    wide_activations_rule,
    scalar_range_rule,
    half_range_rule,
    half_gates_rule,
    constant_logic_rule,
    product_activations_rule,
    branch_sums_rule,
)

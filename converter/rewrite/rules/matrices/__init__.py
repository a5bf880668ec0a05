"""Rewrites operators on matrices and vectors."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.matrices.determinant import determinant_rule
from trtsmith.converter.rewrite.rules.matrices.dynamic_eye import dynamic_eye_rule
from trtsmith.converter.rewrite.rules.matrices.gated_bias import gated_bias_rule
from trtsmith.converter.rewrite.rules.matrices.guarded_softmax import guarded_softmax_rule
from trtsmith.converter.rewrite.rules.matrices.integer_products import (
    integer_einsum_rule,
    integer_products_rule,
)
from trtsmith.converter.rewrite.rules.matrices.masked_softmax import masked_softmax_rule
from trtsmith.converter.rewrite.rules.matrices.upper_triangle import upper_triangle_rule
from trtsmith.converter.rewrite.rules.matrices.vectors import vectors_rule

RULES: tuple[NodeRule, ...] = (
    determinant_rule,
    integer_einsum_rule,
    integer_products_rule,
    vectors_rule,
    dynamic_eye_rule,
    upper_triangle_rule,
    guarded_softmax_rule,
    masked_softmax_rule,
    gated_bias_rule,
)

"""Rewrites operators on matrices and vectors."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.matrices.gated_bias import GATED_BIAS
from trtsmith.converter.rewrite.rules.matrices.guarded_softmax import GUARDED_SOFTMAX
from trtsmith.converter.rewrite.rules.matrices.integer_products import INTEGER_PRODUCTS
from trtsmith.converter.rewrite.rules.matrices.matrix_functions import (
    DETERMINANT,
    DYNAMIC_EYE,
    UPPER_TRIANGLE,
    VECTORS,
)

RULES: tuple[NodeRule, ...] = (
    DETERMINANT,
    INTEGER_PRODUCTS,
    VECTORS,
    DYNAMIC_EYE,
    UPPER_TRIANGLE,
    GUARDED_SOFTMAX,
    GATED_BIAS,
)

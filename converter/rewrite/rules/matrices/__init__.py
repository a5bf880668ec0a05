"""Rewrites operators on matrices and vectors."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.matrices.determinant import DETERMINANT
from trtsmith.converter.rewrite.rules.matrices.dynamic_eye import DYNAMIC_EYE
from trtsmith.converter.rewrite.rules.matrices.gated_bias import GATED_BIAS
from trtsmith.converter.rewrite.rules.matrices.guarded_softmax import GUARDED_SOFTMAX
from trtsmith.converter.rewrite.rules.matrices.integer_products import INTEGER_PRODUCTS
from trtsmith.converter.rewrite.rules.matrices.upper_triangle import UPPER_TRIANGLE
from trtsmith.converter.rewrite.rules.matrices.vectors import VECTORS

RULES: tuple[NodeRule, ...] = (
    DETERMINANT,
    INTEGER_PRODUCTS,
    VECTORS,
    DYNAMIC_EYE,
    UPPER_TRIANGLE,
    GUARDED_SOFTMAX,
    GATED_BIAS,
)

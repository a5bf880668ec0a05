"""Rewrites scatters."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.scatter.masked_fill import MASKED_FILL
from trtsmith.converter.rewrite.rules.scatter.scatter_elements import SCATTER_ELEMENTS
from trtsmith.converter.rewrite.rules.scatter.scatter_nd import SCATTER_ND
from trtsmith.converter.rewrite.rules.scatter.scatter_rows_plugin import SCATTER_ROWS_PLUGIN
from trtsmith.converter.rewrite.rules.scatter.tensor_scatter import TENSOR_SCATTER

RULES: tuple[NodeRule, ...] = (
    MASKED_FILL,
    TENSOR_SCATTER,
    SCATTER_ROWS_PLUGIN,
    SCATTER_ELEMENTS,
    SCATTER_ND,
)

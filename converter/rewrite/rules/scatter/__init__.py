"""Rewrites scatters."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.scatter.masked_fill import masked_fill_rule
from trtsmith.converter.rewrite.rules.scatter.scatter_elements import bool_scatter_rule, scatter_elements_rule
from trtsmith.converter.rewrite.rules.scatter.scatter_nd import scatter_nd_rule
from trtsmith.converter.rewrite.rules.scatter.scatter_rows_plugin import scatter_rows_plugin_rule
from trtsmith.converter.rewrite.rules.scatter.tensor_scatter import tensor_scatter_rule

RULES: tuple[NodeRule, ...] = (
    masked_fill_rule,
    tensor_scatter_rule,
    bool_scatter_rule,
    scatter_rows_plugin_rule,
    scatter_elements_rule,
    scatter_nd_rule,
)

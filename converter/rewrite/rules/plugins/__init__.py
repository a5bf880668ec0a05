"""Replaces plugin nodes that a TensorRT cannot run where they are, and mends what it makes of their results."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.plugins.plugin_nodes import (
    plugin_columns_rule,
    without_kernel_rule,
    workspace_in_branch_rule,
)

RULES: tuple[NodeRule, ...] = (plugin_columns_rule, without_kernel_rule, workspace_in_branch_rule)

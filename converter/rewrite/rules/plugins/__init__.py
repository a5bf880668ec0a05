"""Replaces plugin nodes that a TensorRT cannot run where they are."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.plugins.plugin_nodes import (
    without_kernel_rule,
    workspace_in_branch_rule,
)

RULES: tuple[NodeRule, ...] = (without_kernel_rule, workspace_in_branch_rule)

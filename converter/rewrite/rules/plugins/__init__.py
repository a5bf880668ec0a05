"""Replaces plugin nodes that a TensorRT cannot run where they are."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.plugins.plugin_nodes import WITHOUT_KERNEL, WORKSPACE_IN_BRANCH

RULES: tuple[NodeRule, ...] = (WITHOUT_KERNEL, WORKSPACE_IN_BRANCH)

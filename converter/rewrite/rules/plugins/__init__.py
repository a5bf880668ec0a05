"""Replaces plugin nodes that a TensorRT cannot run where they are."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.plugins.workspace_in_branch import WORKSPACE_IN_BRANCH

RULES: tuple[NodeRule, ...] = (WORKSPACE_IN_BRANCH,)

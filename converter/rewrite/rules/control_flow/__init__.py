"""Rewrites If, Loop and Scan."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.control_flow.branches import BRANCH_RANKS, CONSTANT_IF, EMPTY_IF
from trtsmith.converter.rewrite.rules.control_flow.loops import LOOPS, SCANS

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    EMPTY_IF,
    BRANCH_RANKS,
    LOOPS,
    SCANS,
)

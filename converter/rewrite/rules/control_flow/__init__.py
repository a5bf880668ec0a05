"""Rewrites If, Loop and Scan."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.control_flow.branch_ranks import BRANCH_RANKS
from trtsmith.converter.rewrite.rules.control_flow.constant_if import CONSTANT_IF
from trtsmith.converter.rewrite.rules.control_flow.empty_if import EMPTY_IF
from trtsmith.converter.rewrite.rules.control_flow.loops import LOOPS
from trtsmith.converter.rewrite.rules.control_flow.scans import SCANS

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    EMPTY_IF,
    BRANCH_RANKS,
    LOOPS,
    SCANS,
)

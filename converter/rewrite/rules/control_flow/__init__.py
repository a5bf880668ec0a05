"""Rewrites If, Loop and Scan."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.control_flow.branches import BRANCH_RANKS, CONSTANT_IF, EMPTY_IF
from trtsmith.converter.rewrite.rules.control_flow.cut_outs import CUT_OUTS
from trtsmith.converter.rewrite.rules.control_flow.loops import LOOPS, SCANS
from trtsmith.converter.rewrite.rules.control_flow.pasted_images import PASTED_IMAGES
from trtsmith.converter.rewrite.rules.control_flow.resized_maps import RESIZED_MAPS

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    EMPTY_IF,
    BRANCH_RANKS,
    PASTED_IMAGES,
    CUT_OUTS,
    RESIZED_MAPS,
    LOOPS,
    SCANS,
)

"""Rewrites If, Loop and Scan."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.control_flow.bag_reductions import bag_reductions_rule
from trtsmith.converter.rewrite.rules.control_flow.branches import (
    branch_ranks_rule,
    constant_if_rule,
    empty_if_rule,
)
from trtsmith.converter.rewrite.rules.control_flow.cut_outs import cut_outs_rule
from trtsmith.converter.rewrite.rules.control_flow.loops import loops_rule, scans_rule
from trtsmith.converter.rewrite.rules.control_flow.pasted_images import pasted_images_rule
from trtsmith.converter.rewrite.rules.control_flow.repeated_slices import repeated_slices_rule
from trtsmith.converter.rewrite.rules.control_flow.resized_maps import resized_maps_rule
from trtsmith.converter.rewrite.rules.control_flow.uneven_branches import uneven_branches_rule

RULES: tuple[NodeRule, ...] = (
    constant_if_rule,
    empty_if_rule,
    branch_ranks_rule,
    pasted_images_rule,
    cut_outs_rule,
    repeated_slices_rule,
    bag_reductions_rule,
    resized_maps_rule,
    loops_rule,
    scans_rule,
    uneven_branches_rule,
)

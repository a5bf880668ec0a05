"""Rewrites Resize and GridSample."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.resize.grid_sample import (
    grid_sample_plugin_rule,
    grid_sample_ranks_rule,
    grid_sample_types_rule,
)
from trtsmith.converter.rewrite.rules.resize.resize_behind_loops import resize_behind_loops_rule
from trtsmith.converter.rewrite.rules.resize.resize_forms import resize_rule

RULES: tuple[NodeRule, ...] = (
    resize_rule,
    grid_sample_types_rule,
    grid_sample_plugin_rule,
    grid_sample_ranks_rule,
    resize_behind_loops_rule,
)

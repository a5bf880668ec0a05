"""Rewrites Resize and GridSample."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.resize.grid_sample import (
    GRID_SAMPLE_PLUGIN,
    GRID_SAMPLE_RANKS,
    GRID_SAMPLE_TYPES,
)
from trtsmith.converter.rewrite.rules.resize.resize_forms import RESIZE

RULES: tuple[NodeRule, ...] = (
    RESIZE,
    GRID_SAMPLE_TYPES,
    GRID_SAMPLE_PLUGIN,
    GRID_SAMPLE_RANKS,
)

"""The rewrite rules, in the order in which they run: an explicit tuple."""

from trtsmith.converter.rewrite.custom_ops.aliases import ALIASES
from trtsmith.converter.rewrite.custom_ops.grid_sample_attention import GRID_SAMPLE_ATTENTION
from trtsmith.converter.rewrite.engine.records import Pass

PASSES: tuple[Pass, ...] = (ALIASES, GRID_SAMPLE_ATTENTION)

"""The rewrite rules, in the order in which they run: an explicit tuple."""

from converter.passes.base import Pass
from converter.passes.grid_sample_attention import GRID_SAMPLE_ATTENTION
from converter.passes.spellings import SPELLINGS

PASSES: tuple[Pass, ...] = (SPELLINGS, GRID_SAMPLE_ATTENTION)

"""The rewrite rules, in the order in which they run: an explicit tuple."""

from converter.passes.base import Pass
from converter.passes.spellings import SPELLINGS

PASSES: tuple[Pass, ...] = (SPELLINGS,)

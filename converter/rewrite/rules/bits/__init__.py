"""Rewrites operators on bits: shifts, masks, casts between narrow types."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.bits.bit_cast import BIT_CAST
from trtsmith.converter.rewrite.rules.bits.bitwise import BIT_SHIFT, BITWISE
from trtsmith.converter.rewrite.rules.bits.casts import BYTE_CASTS, NARROW_CASTS

RULES: tuple[NodeRule, ...] = (
    NARROW_CASTS,
    BITWISE,
    BIT_SHIFT,
    BIT_CAST,
    BYTE_CASTS,
)

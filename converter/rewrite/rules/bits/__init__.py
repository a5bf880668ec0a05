"""Rewrites operators on bits: shifts, masks, casts between narrow types."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.bits.bit_cast import bit_cast_rule
from trtsmith.converter.rewrite.rules.bits.bitwise import bit_shift_rule, bitwise_rule
from trtsmith.converter.rewrite.rules.bits.casts import (
    byte_casts_rule,
    column_casts_rule,
    exact_casts_rule,
    narrow_casts_rule,
)

RULES: tuple[NodeRule, ...] = (
    narrow_casts_rule,
    bitwise_rule,
    bit_shift_rule,
    bit_cast_rule,
    byte_casts_rule,
    exact_casts_rule,
    column_casts_rule,
)

"""Lists the rules for standard operators, by family, in the order in which a node is offered to them."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules import (
    bits,
    contrib,
    control_flow,
    layout,
    matrices,
    plugins,
    pointwise,
    pooling,
    quantized,
    random,
    recurrent,
    reductions,
    resize,
    scatter,
    selection,
    sequences,
    signal,
    stock,
)

FAMILIES = (
    stock,
    control_flow,
    sequences,
    pointwise,
    bits,
    matrices,
    reductions,
    scatter,
    layout,
    pooling,
    resize,
    recurrent,
    signal,
    selection,
    random,
    quantized,
    contrib,
    plugins,
)

RULES: tuple[NodeRule, ...] = tuple(rule for family in FAMILIES for rule in family.RULES)
"""Every rule, of every target."""

"""The rules for standard operators, in the order in which a node is offered to them: an explicit tuple."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.axes import AXES
from converter.passes.rules.bool_reduce import BOOL_REDUCE
from converter.passes.rules.constant_if import CONSTANT_IF
from converter.passes.rules.functions import FUNCTIONS
from converter.passes.rules.half_range import HALF_RANGE

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    AXES,
    FUNCTIONS,
    BOOL_REDUCE,
    HALF_RANGE,
)

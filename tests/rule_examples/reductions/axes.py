"""Models that the rule axes takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "computed",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4, 2] x) => (float[3, 1, 1] y)
        <int64 one = {1}> {
            shape = Shape (x)  rank = Size (shape)  axes = Range (one, rank, one)  y = ReduceMean (x, axes)
        }""",
    ),
    Example(
        "attributes",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 4] x) => (float[3, 4] y)
        <int64[0] none = {}> {
            axes = Concat <axis = 0> (none, none)  y = ReduceSum <keepdims = 0, noop_with_empty_axes = 1> (x, axes)
        }""",
    ),
    Example(
        "negative",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, 4, 2] x) => (float[3, 2] y)
        <int64[1] one = {1}, int64[1] three = {3}> {
            axes = Sub (one, three)  y = ReduceProd <keepdims = 0> (x, axes)
        }""",
    ),
)


EXAMPLES = {"axes": _EXAMPLES}

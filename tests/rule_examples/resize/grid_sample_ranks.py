"""Models that the rule grid-sample-ranks takes: images of fewer axes, as video and attention give them to GridSample."""

from __future__ import annotations

from tests.rule_examples.example import Example

_HEAD = '<ir_version: 9, opset_import: ["" : {opset}]> g ({x} x, float[{n}, 3, 4, 2] grid) => ({y} y)'


def _example(name: str, opset: int, x: str, n: int, y: str, constants: str, body: str) -> Example:
    head = _HEAD.format(opset=opset, x=x, n=n, y=y)
    return Example(name, f"{head} <{constants}> {{ {body} }}", reference=True, scale=0.25)


_ZERO = "int64[1] zero = {0}"
_EXAMPLES = (
    _example(
        "an image of three axes",
        20,
        "float[2, 5, 6]",
        1,
        "float[2, 3, 4]",
        _ZERO,
        'u = Unsqueeze (x, zero) s = GridSample <mode = "linear"> (u, grid) y = Squeeze (s, zero)',
    ),
    _example(
        "elementwise operators between",
        17,
        "float[2, 5, 6]",
        1,
        "float[2, 3, 4]",
        _ZERO,
        """u = Unsqueeze (x, zero) r = Relu (u) k = Add (r, u)
 s = GridSample <mode = "nearest", padding_mode = "border"> (k, grid) y = Squeeze (s, zero)""",
    ),
    _example(
        "values of attention",
        16,
        "float[2, 30, 4]",
        4,
        "float[4, 2, 12]",
        "int64[4] maps = {4, 2, 5, 6}, int64[3] rows = {4, 2, 12}",
        """t = Transpose <perm = [0, 2, 1]> (x) u = Reshape (t, maps)
 s = GridSample <align_corners = 0> (u, grid) y = Reshape (s, rows)""",
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {"grid-sample-ranks": _EXAMPLES}

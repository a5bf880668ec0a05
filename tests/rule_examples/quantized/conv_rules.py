"""Models that the rules conv-integer, qlinear-conv take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(3)


def _bytes(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return _RNG.integers(info.min, info.max + 1, shape, dtype)


_INTEGER = (
    Example(
        "padding is the zero point; strides, groups",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[1, 4, 5, 6] x, int8[6, 2, 3, 3] w, uint8 zx) => (int32[1, 6, 3, 3] y)
        <int8[6] zw = {0, 1, -2, 127, -128, 5}> {
            y = ConvInteger <pads = [1, 1, 1, 1], strides = [2, 2], group = 2> (x, w, zx, zw)
        }""",
        feeds={
            "x": _bytes(1, 4, 5, 6),
            "w": _bytes(6, 2, 3, 3, dtype=np.int8),
            "zx": np.array(119, np.uint8),
        },
        reference=True,
    ),
    Example(
        "cut by channels",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[1, 100, 4, 4] x, uint8[3, 100, 3, 3] w) => (int32[1, 3, 2, 2] y) { y = ConvInteger (x, w) }""",
        feeds={"x": np.full((1, 100, 4, 4), 255, np.uint8), "w": 255 - _bytes(3, 100, 3, 3) % 9},
        reference=True,
    ),
    Example(
        "a kernel of more than 2^24",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[1, 1, 24, 24] x, uint8[2, 1, 20, 20] w) => (int32[1, 2, 5, 5] y) { y = ConvInteger (x, w) }""",
        feeds={"x": np.full((1, 1, 24, 24), 255, np.uint8), "w": 255 - _bytes(2, 1, 20, 20) % 9},
        reference=True,
    ),
)


_WEIGHTS = (
    "int8[2, 3, 1, 2] w = {1, -128, 127, 5, -6, 7, 90, -100, 3, 2, 1, 0}, float[2] sw = {0.02, 0.01}, "
    "int8[2] zw = {0, -3}, int32[2] b = {700, -200}"
)


_QLINEAR = (
    Example(
        "weights by channel, a bias",
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[1, 3, 4, 5] x) => (uint8[1, 2, 4, 4] y)
        <{_WEIGHTS}, float sx = {{0.05}}, uint8 zx = {{100}}, float sy = {{0.3}}, uint8 zy = {{131}}> {{
            y = QLinearConv (x, sx, zx, w, sw, zw, sy, zy, b)
        }}""",
        feeds={"x": _bytes(1, 3, 4, 5)},
    ),
    Example(
        "channels last, same padding",
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[1, 4, 5, 3] x) => (uint8[1, 4, 5, 2] y)
        <{_WEIGHTS}, float sx = {{0.05}}, uint8 zx = {{100}}, float sy = {{0.3}}, uint8 zy = {{131}}> {{
            y = com.microsoft.QLinearConv <channels_last = 1, auto_pad = "SAME_UPPER"> (x, sx, zx, w, sw, zw, sy, zy, b)
        }}""",
        feeds={"x": _bytes(1, 4, 5, 3)},
        builds=False,
        why="a transposition of uint8 is for another rule",
    ),
)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "conv-integer": _INTEGER,
    "qlinear-conv": _QLINEAR,
}

"""Models that the rule matmul-integer takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

# onnxruntime saturates sums of two products on processors without VNNI, so that ONNX's reference is the oracle.
_SEED = np.random.default_rng(7)


def _bytes(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    """Random 8-bit numbers, the first of them the ends of the range, where sums are largest."""
    info = np.iinfo(dtype)
    array = _SEED.integers(info.min, info.max + 1, shape, dtype)
    array[0] = info.max
    return array


_EXAMPLES = (
    Example(
        "one product",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 5] a, int8[5, 4] b) => (int32[3, 4] y) <uint8 za = {100}, int8[4] zb = {1, -128, 127, 0}> {
            y = MatMulInteger (a, b, za, zb)
        }""",
        feeds={"a": _bytes(3, 5), "b": _bytes(5, 4, dtype=np.int8)},
        reference=True,
    ),
    Example(
        "cut in three, zero points of rows",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[2, 3, 700] a, uint8[2, 700, 4] b) => (int32[2, 3, 4] y) <uint8[3, 1] za = {0, 1, 255}> {
            y = MatMulInteger (a, b, za)
        }""",
        feeds={"a": np.full((2, 3, 700), 255, np.uint8), "b": _bytes(2, 700, 4)},
        reference=True,
    ),
    Example(
        "second operand split",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[2, 5000] a, uint8[5000, 3] b) => (int32[2, 3] y) { y = MatMulInteger (a, b) }""",
        feeds={"a": np.full((2, 5000), 255, np.uint8), "b": np.full((5000, 3), 253, np.uint8)},
        reference=True,
    ),
    Example(
        "both operands split, as the length is of run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[2, 700] a, int8[700, 3] b, int64[1] n, uint8 za) => (int32[2, 3] y)
        <int64[1] zero = {0}, int64[1] rows = {0}, int64[1] columns = {1}> {
            some = Slice (a, zero, n, columns)  more = Slice (b, zero, n, rows)
            y = MatMulInteger (some, more, za)
        }""",
        feeds={
            "a": np.full((2, 700), 3, np.uint8),
            "b": _bytes(700, 3, dtype=np.int8),
            "n": np.array([600]),
            "za": np.array(254, np.uint8),
        },
        reference=True,
        builds=False,
        why="slices of uint8 are for another rule",
    ),
)


EXAMPLES = {"matmul-integer": _EXAMPLES}

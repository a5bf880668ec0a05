"""Models that the rule stock-masks takes; the oracles go from pixel to pixel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch

_RNG = np.random.default_rng(5)


def _attention(mask: tuple[int, int], collect: bool) -> Callable[[Arrays], Arrays]:
    """A pixel's mask reaches from half its size before it."""

    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"]
        n, _, height, width = x.shape
        result = np.zeros((n, height, width, height, width), x.dtype)
        for h, w, i, j in np.ndindex(height, width, *mask):
            row, column = h + i - (mask[0] - 1) // 2, w + j - (mask[1] - 1) // 2
            if 0 <= row < height and 0 <= column < width:
                place = (row, column, h, w) if collect else (h, w, row, column)
                result[(slice(None), *place)] = x[:, i * mask[1] + j, h, w]
        return {"y": result.reshape(n, height * width, height, width)}

    return expected


def _masks(
    name: str, mask: tuple[int, int], kind: int, size: str, batch: str = "2", dtype: str = "float"
) -> Example:
    x = _RNG.normal(size=(2, mask[0] * mask[1], 4, 5)).astype(
        np.float16 if dtype == "float16" else np.float32
    )
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 11, "mmcv" : 1]>
        g ({dtype}[{batch}, {mask[0] * mask[1]}, 4, 5] x) => ({dtype}[{batch}, 20, 4, 5] y) {{
            y = mmcv.MMCVPSAMask <psa_type = {kind}, mask_size = {size}> (x)
        }}""",
        feeds={"x": x},
        expected=_attention(mask, kind == 0),
    )


_X = _RNG.normal(size=(1, 3, 5, 6)).astype(np.float32)
_WEIGHT = _RNG.normal(size=(4, 3, 3, 1)).astype(np.float32)
_BIAS = _RNG.normal(size=4).astype(np.float32)
_MASK = np.where(_RNG.random((1, 5, 6)) < 0.5, _RNG.normal(size=(1, 5, 6)), 0).astype(np.float32)


def _masked(inputs: Arrays) -> Arrays:
    made = by_torch("conv2d", *(inputs[name] for name in "xwb"), padding=(1, 0))
    return {"y": np.where(inputs["m"] > 0, made, 0).astype(inputs["x"].dtype)}


def _convolution(name: str, mask: str, attributes: str, half: bool = False) -> Example:
    dtype = "float16" if half else "float"
    feeds = {"x": _X, "w": _WEIGHT, "b": _BIAS}
    if half:
        feeds = {key: array.astype(np.float16) for key, array in feeds.items()}
    masks = {"bool": _MASK > 0, "int64": np.sign(_MASK).astype(np.int64), "float": _MASK}
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13, "mmcv" : 1]>
        g ({dtype}[1, 3, 5, 6] x, {mask}[1, 5, 6] m, {dtype}[4, 3, 3, 1] w, {dtype}[4] b)
            => ({dtype}[1, 4, 5, 6] y) {{ y = mmcv.MMCVMaskedConv2d <{attributes}> (x, m, w, b) }}""",
        feeds={**feeds, "m": masks[mask]},
        rtol=4e-3 if half else 1e-4,
        atol=4e-3 if half else 1e-5,
        expected=_masked,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "stock-masks": (
        _masks("masks that collect", (7, 9), 0, "[7, 9]"),
        _masks("masks that distribute, any batch", (7, 9), 1, "[7, 9]", "N"),
        _masks("small masks of even size", (2, 4), 0, "[2, 4]"),
        _masks("one number for both sides, distributing", (3, 3), 1, "3", dtype="float16"),
        _masks("masks larger than twice the map", (11, 13), 0, "[11, 13]"),
        _convolution("a mask of bools", "bool", "padding = [1, 0], stride = [1, 1]"),
        _convolution("a mask of numbers, some below 0", "float", "padding = [1, 0], stride = 1"),
        _convolution("a mask of integers, float16", "int64", "padding = [1, 0], stride = 1", half=True),
    ),
}


def _refused(call: str, x: str = "float[1, 9, 4, 5] x", more: str = "") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 13, "mmcv" : 1]>
    g ({x}{more}) => (float[a, b, c, d] y) {{ y = mmcv.{call} }}"""


_OPERANDS = ", bool[1, 4, 5] m, float[2, 9, 3, 3] w, float[2] b"

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-masks": (
        _refused("MMCVPSAMask <psa_type = 2, mask_size = 3> (x)"),
        _refused("MMCVPSAMask <psa_type = 0, mask_size = [3, 2]> (x)"),
        _refused("MMCVPSAMask <psa_type = 0, mask_size = [3, 3, 1]> (x)"),
        _refused("MMCVPSAMask <psa_type = 0, mask_size = 3> (x)", "float[1, 9, H, 5] x"),
        _refused("MMCVMaskedConv2d <padding = 0, stride = 1> (x, m, w, b)", more=_OPERANDS),
        _refused("MMCVMaskedConv2d <padding = 1, stride = 2> (x, m, w, b)", more=_OPERANDS),
        _refused("MMCVMaskedConv2d <padding = -1, stride = 1> (x, m, w, b)", more=_OPERANDS),
        _refused("MMCVMaskedConv2d <padding = 1, stride = 1> (x, m, w, b)", "float[2, 9, 4, 5] x", _OPERANDS),
    ),
}

"""Rewrites onnxruntime's own ExpandDims, Range without a step, CropAndResize and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, unknown, unknown_type


def _rewrite_crop_and_resize(node: NodeView) -> Replacement | Refusal | None:
    """Boxes [y1, x1, y2, x2] of images, in fractions of size - 1, sampled corner to corner: TensorFlow's operator.

    onnxruntime's documentation gives the semantics. GridSample with aligned corners reads the same points; those outside
    the image are set to the extrapolation value, and what is nearest is decided here, as halves go up.
    """
    size, dims, dtype = node.constant(3), node.shape(0), float_type(node)
    if size is None or node.opset < 16:
        reason = (
            "crop_size is computed at run time" if size is None else f"the model is of opset {node.opset}"
        )
        return Refusal(
            reason,
            "a constant crop_size, and opset 16 or later",
            "export the model with a constant crop_size, or freeze it with --freeze",
        )
    if size.shape != (2,):
        return Refusal(
            f"crop_size has the shape {list(size.shape)}",
            "two numbers: rows, columns",
            "export the model again",
        )
    height, width = dims[2:4] if dims and len(dims) == 4 else (None, None)
    if height is None or width is None or dtype is None:
        return unknown(node, 0, "a spatial size")
    if dtype != "float32":
        return Refusal(f"its type is {dtype}", "float32", "cast its inputs to float32")
    nearest = node.attributes.get("mode", "bilinear") == "nearest"
    w = Writer(node)
    rows, columns = int(size[0]), int(size[1])
    y, y_outside = crop_places(w, w.x[1], 0, 2, rows, height, nearest)
    x, x_outside = crop_places(w, w.x[1], 1, 3, columns, width, nearest)
    images = w.Gather(w.x[0], w.Cast(w.x[2], to="int64"), axis=0)
    y, x = w.Reshape(y, shape=[-1, rows, 1, 1]), w.Reshape(x, shape=[-1, 1, columns, 1])
    x_zeros, y_zeros = w.Sub(x, x), w.Sub(y, y)
    grid = w.Concat(w.Add(x, y_zeros), w.Add(y, x_zeros), axis=3)
    mode = "linear" if node.opset >= 20 else "bilinear"
    sampled = w.GridSample(images, grid, align_corners=1, padding_mode="border", mode=mode)
    outside = w.Or(
        w.Reshape(y_outside, shape=[-1, 1, rows, 1]), w.Reshape(x_outside, shape=[-1, 1, 1, columns])
    )
    beyond = node.attributes.get("extrapolation_value", 0.0)
    return Replacement(w.finish(w.Where(outside, beyond, sampled)), "GridSample of each box")


def crop_places(
    w: Writer, boxes: Value, first: int, last: int, count: int, size: int, nearest: bool
) -> tuple[Value, Value]:
    """Places the boxes' points along an axis, from -1 to 1, and marks those outside. first, last: columns of a box."""
    begin, end = (w.Gather(boxes, [column], axis=1) for column in (first, last))
    half, most = 0.5, float(size - 1)
    if count > 1:
        step = w.Div(w.Mul(w.Sub(end, begin), most), float(count - 1))
        place = w.Add(w.Mul(begin, most), w.Mul(step, np.arange(count, dtype=np.float32)))
    else:
        place = w.Mul(w.Mul(w.Add(begin, end), half), most)
    outside = w.Or(w.Less(place, 0.0), w.Greater(place, most))
    point = w.Floor(w.Add(place, half)) if nearest else place
    return w.Sub(w.Mul(point, float(2 / max(size - 1, 1))), 1.0), outside


CONTRIB_CROP = NodeRule(
    "contrib-crop",
    "onnxruntime's CropAndResize becomes GridSample",
    ("com.microsoft::CropAndResize",),
    _rewrite_crop_and_resize,
)


def _rfft(node: NodeView) -> Replacement | Refusal | None:
    """The one-sided DFT of the last axis, as a product with cosines and negative sines."""
    dims, dtype = node.shape(0), float_type(node)
    fault = _one_signal(node)
    if fault or not dims or dims[-1] is None or dtype is None:
        return fault or unknown(node, 0, "the last size")
    n = dims[-1]
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    cos, sin = (array.astype(dtype) for array in (np.cos(angles), -np.sin(angles)))
    w = Writer(node)
    parts = (w.Unsqueeze(w.MatMul(w.x[0], matrix), axes=[-1]) for matrix in (cos, sin))
    return Replacement(w.finish(w.Concat(*parts, axis=-1)), "a product with cosines and sines")


def _irfft(node: NodeView) -> Replacement | Refusal | None:
    """Back from one side: n = 2 (frequencies - 1) samples, divided by n."""
    dims, dtype = node.shape(0), float_type(node)
    fault = _one_signal(node)
    if fault or not dims or len(dims) < 2 or dims[-2] is None or dtype is None:
        return fault or unknown(node, 0, "the size before the last")
    bins = dims[-2]
    n = 2 * (bins - 1)
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(n)) / n
    twice = np.where((np.arange(bins) == 0) | (np.arange(bins) == bins - 1), 1.0, 2.0)[:, None] / n
    cos, sin = (array.astype(dtype) for array in (np.cos(angles) * twice, -np.sin(angles) * twice))
    w = Writer(node)
    even, odd = (w.MatMul(w.Gather(w.x[0], part, axis=-1), matrix) for part, matrix in enumerate((cos, sin)))
    return Replacement(w.finish(w.Add(even, odd)), "products with cosines and sines")


def _one_signal(node: NodeView) -> Refusal | None:
    given = {name: node.attributes.get(name) for name in ("signal_ndim", "normalized", "onesided")}
    if given["signal_ndim"] in (1, None) and not given["normalized"] and given["onesided"] in (1, None):
        return None
    shown = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
    return Refusal(
        shown, "one-sided signals of one dimension, not normalised", "export the model with ONNX's DFT"
    )


def _rewrite_fourier(node: NodeView) -> Replacement | Refusal | None:
    return _rfft(node) if node.op_type == "Rfft" else _irfft(node)


CONTRIB_FOURIER = NodeRule(
    "contrib-fourier",
    "onnxruntime's Rfft and Irfft become matrix products",
    ("com.microsoft::Rfft", "com.microsoft::Irfft"),
    _rewrite_fourier,
)
"""Its transforms are tested against numpy's: onnxruntime's CPU provider has none."""


def _expand_dims(node: NodeView) -> Replacement | Refusal | None:
    axis = node.constant(1)
    if axis is None:
        fix = f"freeze it: --freeze {node.input(1)}=VALUE"
        return Refusal(f"the axis ({node.input(1)!r}) is computed at run time", "a constant", fix)
    w = Writer(node)
    return Replacement(w.finish(w.Unsqueeze(w.x[0], axes=[int(axis.reshape(-1)[0])])), "Unsqueeze")


def _range(node: NodeView) -> Replacement | Refusal | None:
    """Steps of one where no step is given; otherwise TensorRT takes the node for ONNX's."""
    if node.input(2):
        return None
    dtype = node.dtype(0)
    if dtype is None:
        return unknown_type(node)
    w = Writer(node)
    return Replacement(w.finish(w.Range(*w.x[:2], np.array(1, dtype))), "Range with a step of one")


_BODIES: Mapping[str, Callable[[NodeView], Replacement | Refusal | None]] = {
    "ExpandDims": _expand_dims,
    "Range": _range,
}


def _rewrite_arrays(node: NodeView) -> Replacement | Refusal | None:
    return _BODIES[node.op_type](node)


CONTRIB_ARRAYS = NodeRule(
    "contrib-arrays",
    "onnxruntime's ExpandDims and Range become ONNX's",
    tuple(f"com.microsoft::{name}" for name in _BODIES),
    _rewrite_arrays,
)

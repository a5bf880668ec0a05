"""Rewrites onnxruntime's own ExpandDims, Range without a step, CropAndResize and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type
from trtsmith.converter.rewrite.rules.signal.dft import LONGEST, transform


@node_rule("contrib-crop", "com.microsoft::CropAndResize")
def contrib_crop_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's CropAndResize as gathers, or as GridSample in the nearest mode.

    Boxes [y1, x1, y2, x2] of images, in fractions of size - 1, sampled corner to corner: TensorFlow's operator.

    onnxruntime's documentation gives the semantics. GridSample with aligned corners reads the same points; those outside
    the image are set to the extrapolation value, and what is nearest is decided here, as halves go up.
    """
    size, dims, dtype = node.constant(3), node.shape(0), float_type(node)
    nearest = node.attributes.get("mode", "bilinear") == "nearest"
    if size is None or (nearest and node.opset < 16):
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
    if not dims or (nearest and (height is None or width is None)):
        return node.unknown(0, "a spatial size")
    if dtype != "float32":
        return Refusal(f"its type is {dtype}", "float32", "cast its inputs to float32")
    w = Writer(node)
    rows, columns = int(size[0]), int(size[1])
    beyond = node.attributes.get("extrapolation_value", 0.0)
    if not nearest:
        found = cut_outs(w, w.x[0], w.x[1], w.x[2], (rows, columns), beyond, as_resize=False)
        return Replacement(w.finish(found), "gathers of the points' corners")
    y, y_outside = crop_places(w, w.x[1], 0, 2, rows, height or 0, nearest)
    x, x_outside = crop_places(w, w.x[1], 1, 3, columns, width or 0, nearest)
    images = w.Gather(w.x[0], w.Cast(w.x[2], to="int64"), axis=0)
    y, x = w.Reshape(y, shape=[-1, rows, 1, 1]), w.Reshape(x, shape=[-1, 1, columns, 1])
    x_zeros, y_zeros = w.Sub(x, x), w.Sub(y, y)
    grid = w.Concat(w.Add(x, y_zeros), w.Add(y, x_zeros), axis=3)
    mode = "linear" if node.opset >= 20 else "bilinear"
    sampled = w.GridSample(images, grid, align_corners=1, padding_mode="border", mode=mode)
    return Replacement(
        w.finish(w.Where(_outside(w, y_outside, x_outside), beyond, sampled)), "GridSample of each box"
    )


def cut_outs(
    w: Writer,
    images: Value,
    boxes: Value,
    at: Value,
    size: tuple[int, int],
    beyond: float,
    *,
    as_resize: bool,
) -> Value:
    """Crops boxes [y1, x1, y2, x2] from images [N, C, H, W]; `at` gives each box's image. Returns [R, C, rows, columns].

    Four gathers of elements with all their channels, weighted. as_resize: of `_points`.
    """
    outside, indices, weights = [], [], []
    for first, last, count, axis in ((0, 2, size[0], 2), (1, 3, size[1], 3)):
        most = w.Cast(w.Sub(w.size(images, axis), [1]), to="float32")
        place = _points(w, boxes, first, last, count, most, as_resize=as_resize)
        outside.append(w.Or(w.Less(place, 0.0), w.Greater(place, most)))
        place = w.Min(w.Max(place, 0.0), most)
        low = w.Floor(place)
        part = w.Sub(place, low)
        indices.append([w.Cast(one, to="int64") for one in (low, w.Min(w.Add(low, 1.0), most))])
        weights.append([w.Sub(1.0, part), part])
    height, width = w.size(images, 2), w.size(images, 3)
    elements = w.Reshape(w.Transpose(images, perm=[0, 2, 3, 1]), w.Concat([-1], w.size(images, 1), axis=0))
    image = w.Reshape(w.Mul(w.Cast(at, to="int64"), w.Mul(height, width)), shape=[-1, 1, 1])
    corners = []
    for row, row_weight in zip(indices[0], weights[0], strict=True):
        line = w.Add(image, w.unsqueeze(w.Mul(row, width), [2]))
        for column, column_weight in zip(indices[1], weights[1], strict=True):
            found = w.Gather(elements, w.Add(line, w.unsqueeze(column, [1])), axis=0)
            weight = w.Mul(w.unsqueeze(row_weight, [2, 3]), w.unsqueeze(column_weight, [1, 3]))
            corners.append(w.Mul(found, weight))
    return w.Where(_outside(w, *outside), beyond, w.Transpose(w.Sum(*corners), perm=[0, 3, 1, 2]))


def _outside(w: Writer, y: Value, x: Value) -> Value:
    """Marks the points of [R, rows] and [R, columns] beyond the image: [R, 1, rows, columns]."""
    return w.Or(w.unsqueeze(y, [1, 3]), w.unsqueeze(x, [1, 2]))


def _points(
    w: Writer,
    boxes: Value,
    first: int,
    last: int,
    count: int,
    most: Value | float,
    *,
    as_resize: bool = False,
) -> Value:
    """Positions of the boxes' sampling points along an axis, in pixels from 0 to `most`.

    A rounding decides whether the last point of a box that ends at the border is outside. as_resize: it is inside of a whole
    image, as Resize with tf_crop_and_resize has it; CropAndResize multiplies a step. TensorRT-RTX divides approximately, so
    the graph divides nothing then.
    """
    ends = [w.Gather(boxes, [column], axis=1) for column in (first, last)]
    begin, end = (w.Mul(one, most) for one in ends)
    if count == 1:
        return w.Mul(w.Add(begin, end), 0.5)
    numbers = w.numbers(count).astype(np.float32)
    if as_resize:
        moved = w.Mul(w.Mul(w.Sub(ends[1], ends[0]), most), numbers / np.float32(count - 1))
    else:
        moved = w.Mul(w.Div(w.Sub(end, begin), float(count - 1)), numbers)
    return w.Add(begin, moved)


def crop_places(
    w: Writer, boxes: Value, first: int, last: int, count: int, size: int, nearest: bool
) -> tuple[Value, Value]:
    """Computes positions of the boxes' sampling points along an axis, from -1 to 1, and a mask of those outside. first,
    last: columns of a box.
    """
    most = float(size - 1)
    place = _points(w, boxes, first, last, count, most)
    outside = w.Or(w.Less(place, 0.0), w.Greater(place, most))
    point = w.Floor(w.Add(place, 0.5)) if nearest else place
    return w.Sub(w.Mul(point, float(2 / max(size - 1, 1))), 1.0), outside


@node_rule("contrib-fourier", "com.microsoft::Rfft", "com.microsoft::Irfft")
def contrib_fourier_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's Rfft and Irfft as matrix products.

    Rfft: the one-sided transform of the last axis, and a whole one of the axis before it; Irfft: back, in that order.
    """
    given = {name: node.attributes.get(name) for name in ("signal_ndim", "normalized", "onesided")}
    if given["signal_ndim"] not in (1, 2, None) or given["normalized"] or given["onesided"] not in (1, None):
        shown = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
        wanted = "one-sided signals of one or two dimensions, not normalised"
        return Refusal(shown, wanted, "export the model with ONNX's DFT")
    back, axes = node.op_type == "Irfft", given["signal_ndim"] or 1
    dtype, dims = float_type(node), node.shape(0)
    if dims is None or len(dims) < axes + back or None in dims[-axes - back :]:
        return node.unknown(0, "one of the last sizes")
    shape = [*dims] if back else [*dims, 1]
    last = len(shape) - 2
    size = 2 * ((shape[last] or 0) - 1) if back else shape[last] or 0
    if size < 1 or max(size, shape[last - 1] or 0 if axes == 2 else 0) > LONGEST:
        return Refusal(f"a signal of {dims}", f"1 to {LONGEST:,} points an axis", "split the transform")
    w = Writer(node)
    data = w.x[0] if back else w.Unsqueeze(w.x[0], axes=[-1])
    steps = [(last, True), (last - 1, False)][:axes]
    for axis, half in steps[::-1] if back else steps:
        data = transform(w, data, shape, axis, size if half else shape[axis], back, half, dtype)
        shape = shape if back else [*shape[:last], size // 2 + 1, 2]
    result = w.Squeeze(data, axes=[-1]) if back else data
    return Replacement(w.finish(result), "products with cosines and sines")


def _expand_dims(node: NodeView) -> Replacement | Refusal | None:
    axis = node.constant(1)
    if axis is None:
        fix = f"freeze it: --freeze {quote(node.input(1))}=VALUE"
        return Refusal(f"the axis ({node.input(1)!r}) is computed at run time", "a constant", fix)
    w = Writer(node)
    return Replacement(w.finish(w.Unsqueeze(w.x[0], axes=[int(axis.reshape(-1)[0])])), "Unsqueeze")


def _range(node: NodeView) -> Replacement | Refusal | None:
    """Adds a step of one to a Range without a step; TensorRT takes any other Range as ONNX's."""
    if node.input(2):
        return None
    dtype = node.known_dtype(0)
    w = Writer(node)
    return Replacement(w.finish(w.Range(*w.x[:2], np.array(1, dtype))), "Range with a step of one")


_BODIES: Mapping[str, Callable[[NodeView], Replacement | Refusal | None]] = {
    "ExpandDims": _expand_dims,
    "Range": _range,
}


@node_rule("contrib-arrays", *(f"com.microsoft::{name}" for name in _BODIES))
def contrib_arrays_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's ExpandDims and Range as standard operators."""
    return _BODIES[node.op_type](node)

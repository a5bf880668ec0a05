"""Rewrites Resize where TensorRT refuses it: antialiased, cropped, of a kept aspect ratio, symmetric, of integers.

Interpolation is done one axis after the other: gathers of the neighbours and a weighted sum, or a product with the
matrix of weights where there are many. Weights are constants for known sizes, else the graph computes them.

align_corners with scales that give no whole length is left to TensorRT: it divides by the whole length less one, as PyTorch
and onnxruntime do, and onnx's reference by the length before it was cut, as its tests have it (seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.resize.resize_axes import along
from trtsmith.converter.rewrite.rules.resize.resize_plan import sampling, stretches
from trtsmith.importers.dtypes import FLOATS

_COORDINATES = ("half_pixel_symmetric", "tf_crop_and_resize")
_TIES = (
    "Resize computes coordinates from sizes of run time in float32: one that falls midway between two inputs may take "
    "the other of the two"
)


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given, dtype = node.attributes, node.dtype(0)
    if node.opset < 11:
        return _older(node)
    refused = (
        given.get("coordinate_transformation_mode") in _COORDINATES
        or (given.get("antialias", 0) and given.get("mode") != "nearest")
        or given.get("keep_aspect_ratio_policy", "stretch") != "stretch"
        or (dtype is not None and dtype not in (*FLOATS, "int8"))
    )
    if not refused:
        return _whole_sizes(node)
    s = sampling(node)
    if s.mode != "nearest" and dtype not in FLOATS:
        return Refusal(
            f"interpolation of {dtype or 'an unknown type'}: how it rounds is up to the runtime",
            "a float type",
            "cast to float32 before the Resize, and back with the rounding that you want",
        )
    w = Writer(node)
    plan = stretches(node, w)
    if isinstance(plan, Refusal):
        return plan
    work = {"float16": "float32", "bfloat16": "float32", "uint8": "int32"}.get(
        dtype or "", dtype or "float32"
    )
    data = w.Cast(w.x[0], to=work) if work != dtype else w.x[0]
    rank = len(node.shape(0) or ())
    masks: list[Value] = []
    products = False
    for part in plan:
        if not part.idle:
            data, by_matrix = along(w, data, s, part, rank, work, masks)
            products |= by_matrix
    for mask in masks:
        data = w.Where(mask, w.number(float(given.get("extrapolation_value", 0.0)), work), data)
    result = w.Cast(data, to=dtype) if work != dtype and dtype is not None else data
    numerics = "Resize multiplies by a matrix of weights, for which TensorRT may use TF32" if products else ""
    unknown = [part for part in plan if not part.known and not part.idle]
    crop = s.coordinates == "tf_crop_and_resize"
    # Of sizes alone, coordinates are quotients of whole numbers, and rounded as such.
    if s.mode == "nearest" and any(part.scale is not None or crop for part in unknown):
        numerics = _TIES
    return Replacement(
        w.finish(result), f"Resize ({s.mode}, {s.coordinates}) axis by axis", numerics=numerics
    )


def _older(node: NodeView) -> Replacement | Refusal | None:
    """Opset 10, which knows no crops: integers only, and those that float32 holds."""
    dtype = node.dtype(0)
    if dtype is None or dtype in (*FLOATS, "int8"):
        return None
    if dtype not in ("uint8", "bool") or node.attributes.get("mode") != "nearest":
        return Refusal(
            f"Resize of {dtype} in opset {node.opset}",
            "a float type, or opset 11 or later",
            "convert the model to a newer opset (onnx.version_converter)",
        )
    w = Writer(node)
    return Replacement(
        w.finish(w.Cast(w.Resize(w.Cast(w.x[0], to="float32"), w.x[1], mode="nearest"), to=dtype)),
        f"Resize of {dtype} in float32, exact for it",
    )


def _whole_sizes(node: NodeView) -> Replacement | None:
    """Sizes for some axes only, of an input with unknown lengths: TensorRT takes the unknown ones for negative."""
    shape, axes = node.shape(0), node.attributes.get("axes")
    if not axes or not node.input(3) or shape is None:
        return None
    order = [axis % len(shape) for axis in axes]
    if all(shape[i] is not None for i in range(len(shape)) if i not in order):
        return None
    w = Writer(node)
    sizes = [
        w.Gather(w.x[3], [order.index(i)], axis=0) if i in order else w.size(w.x[0], i)
        for i in range(len(shape))
    ]
    rest = {a.name: node.attributes[a.name] for a in node.proto.attribute if a.name != "axes"}
    return Replacement(
        w.finish(w.Resize(w.x[0], "", "", w.Concat(*sizes, axis=0), **rest)),
        "Resize with the sizes of all axes",
    )


RESIZE = NodeRule(
    "resize",
    "Resize with antialiasing, cropping, a kept aspect ratio or of integers is written out axis by axis",
    ("Resize",),
    _rewrite,
)

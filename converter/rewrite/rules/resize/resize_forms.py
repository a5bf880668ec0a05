"""Rewrites Resize where TensorRT refuses it: antialiasing, crops, kept aspect ratios, integers and some coordinate modes.

Interpolation is done one axis after the other: gathers of the neighbours and a weighted sum, or a product with the
matrix of weights where there are many. Weights are constants for known sizes, else the graph computes them.

align_corners with scales that give no whole length is left to TensorRT: it divides by the whole length less one, as PyTorch
and onnxruntime do, and onnx's reference by the length before it was cut, as its tests have it (seen on an H200).

Computes in the graph, in float32, what resize_weights.py computes in numpy, for sizes that only a run tells.

The nearest input is found in int64 where the scale is a quotient of sizes: TensorRT-RTX 1.6.1 divides float32 approximately
(7 / 14 is more than a half, seen on an H200), and a coordinate midway between two inputs is common.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.resize import resize_weights
from trtsmith.converter.rewrite.rules.resize.resize_plan import Stretch, sampling, stretches
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling
from trtsmith.importers.dtypes import FLOATS


class DynamicAxis:
    """An axis whose input or output length is known at run time only.

    The scale is over / under.
    """

    def __init__(self, w: Writer, part: Stretch) -> None:
        size, out, over, under = part.size, part.length, part.over, part.under
        assert size is not None and out is not None and over is not None and under is not None
        self.w = w
        self.size, self.out = size, out
        self.over, self.under, self._ratio = over, under, part.ratio
        self.scale = w.Div(self.over, self.under)
        self.last = w.Sub(size, [1])

    def places(self, s: Sampling, roi: tuple[float, float]) -> Value:
        """Returns the input coordinate of each output, float32[out]."""
        w = self.w
        y = w.Cast(w.arange(self.out), to="float32")
        size, last = w.Cast(self.size, to="float32"), w.Cast(self.last, to="float32")
        length = w.Mul(self.scale, size)
        if s.coordinates in ("align_corners", "tf_crop_and_resize"):
            low, high = (0.0, 1.0) if s.coordinates == "align_corners" else roi
            single = w.Equal(length, self._one(1.0))
            gaps = w.Where(single, self._one(1.0), w.Sub(length, self._one(1.0)))
            begin = w.Mul(last, self._one(low))
            spread = w.Div(w.Mul(w.Mul(y, self._one(high - low)), last), gaps)
            if s.coordinates == "align_corners":
                return w.Where(single, self._one(0.0), spread)
            middle = w.Mul(last, self._one((high - low) / 2))
            return w.Add(begin, w.Where(single, middle, spread))
        if s.coordinates == "asymmetric":
            return w.Div(w.Mul(y, self.under), self.over)
        # (y + 1/2) / scale - 1/2 is ((2 y + 1) under - over) / (2 over); symmetric, with n outputs of m inputs,
        # m/2 (1 - n / (m scale)) more: ((2 y + 1 - n) under + (m - 1) over) / (2 over).
        twice = w.Add(w.Mul(y, self._one(2.0)), self._one(1.0))
        if s.coordinates == "half_pixel_symmetric":
            twice = w.Sub(twice, w.Cast(self.out, to="float32"))
            shift = w.Mul(last, self.over)
        elif s.coordinates == "tf_half_pixel_for_nn":
            shift = self._one(0.0)
        else:
            shift = w.Neg(self.over)
        x = w.Div(w.Add(w.Mul(twice, self.under), shift), w.Mul(self.over, self._one(2.0)))
        if s.coordinates == "pytorch_half_pixel":
            return w.Where(w.Equal(length, self._one(1.0)), self._one(-0.5), x)
        return x

    def nearest_index(self, s: Sampling, x: Value) -> Value:
        """Returns the nearest input of each output, int64[out]. x: the result of `places`."""
        w = self.w
        if self._ratio and s.coordinates != "tf_crop_and_resize":
            return self._whole_index(s, *self._ratio)
        half = self._one(0.5)
        rounded = {
            "round_prefer_floor": lambda: w.Ceil(w.Sub(x, half)),
            "round_prefer_ceil": lambda: w.Floor(w.Add(x, half)),
            "floor": lambda: w.Floor(x),
            "ceil": lambda: w.Ceil(x),
        }[s.nearest]()
        return self._inside(rounded)

    def _whole_index(self, s: Sampling, over: Value, under: Value) -> Value:
        """The nearest input by integer division; exact, as the coordinate is a quotient of integers."""
        w = self.w
        above, below = self._quotient(s, over, under)
        if s.nearest.startswith("round"):  # ceil(x - 1/2), floor(x + 1/2)
            above = w.Add(w.Mul(above, [2]), below)
            below = w.Mul(below, [2])
            if s.nearest == "round_prefer_floor":
                above = w.Sub(above, [1])
        elif s.nearest == "ceil":
            above = w.Sub(w.Add(above, below), [1])
        # below the first input the first one counts: what a division does with a negative number is no matter
        index = w.Div(self._at_least_zero(above), below)
        return w.Where(w.Less(index, self.last), index, self.last)

    def _quotient(self, s: Sampling, over: Value, under: Value) -> tuple[Value, Value]:
        """Numerator int64[out] and positive denominator int64[1] of the coordinates in `places`."""
        w = self.w
        y = w.arange(self.out)
        length = w.Mul(over, self.size)  # times under
        single = w.Equal(length, under)
        if s.coordinates == "align_corners":
            above = w.Where(single, [0], w.Mul(w.Mul(y, self.last), under))
            return above, w.Where(single, [1], w.Sub(length, under))
        if s.coordinates == "asymmetric":
            return w.Mul(y, under), over
        twice = w.Add(w.Mul(y, [2]), [1])
        below = w.Mul(over, [2])
        if s.coordinates == "half_pixel_symmetric":
            above = w.Mul(w.Sub(twice, self.out), under)
            return w.Add(above, w.Mul(self.last, over)), below
        above = w.Mul(twice, under)
        if s.coordinates == "tf_half_pixel_for_nn":
            return above, below
        above = w.Sub(above, over)
        if s.coordinates == "pytorch_half_pixel":
            above = w.Where(single, w.Neg(over), above)
        return above, below

    def _at_least_zero(self, value: Value) -> Value:
        zero = [0]
        return self.w.Where(self.w.Less(value, zero), zero, value)

    def taps(self, s: Sampling, x: Value) -> list[tuple[Value, Value]]:
        """Computes (index, weight) of each of the two or four neighbours, without antialiasing."""
        w = self.w
        floor = w.Floor(x)
        spots = [w.Add(floor, self._one(float(t))) for t in range(1 - s.reach, s.reach + 1)]
        weights = [kernel(w, s, w.Sub(spot, x)) for spot in spots]
        if s.exclude_outside:
            weights = [w.Mul(v, self._is_inside(p)) for v, p in zip(weights, spots, strict=True)]
            total = w.Sum(*weights)
            total = w.Where(w.Equal(total, self._one(0.0)), self._one(1.0), total)
            weights = [w.Div(weight, total) for weight in weights]
        return [(self._inside(p), v) for p, v in zip(spots, weights, strict=True)]

    def matrix(self, s: Sampling, x: Value) -> tuple[Value, Value]:
        """Computes antialiasing: the inputs in reach, edges repeated (int64[n]), and their weights (float32[out, n])."""
        w = self.w
        shrink = w.Min(self.scale, self._one(1.0))
        margin = w.Cast(w.Ceil(w.Div(self._one(float(s.reach)), shrink)), to="int64")
        count = w.Add(self.size, w.Mul(margin, [2]))
        spots = w.Cast(w.Sub(w.arange(count), margin), to="float32")
        distance = w.Mul(w.Sub(w.Unsqueeze(spots, axes=[0]), w.Unsqueeze(x, axes=[1])), shrink)
        weight = kernel(w, s, distance)
        if s.exclude_outside:
            weight = w.Mul(weight, w.Unsqueeze(self._is_inside(spots), axes=[0]))
        total = w.reduce("ReduceSum", weight, [1])
        total = w.Where(w.Equal(total, self._one(0.0)), self._one(1.0), total)
        return self._inside(spots), w.Div(weight, total)

    def outside(self, x: Value) -> Value:
        """Tells which coordinates lie outside the input, bool[out]."""
        w = self.w
        return w.Or(w.Less(x, self._one(0.0)), w.Greater(x, w.Cast(self.last, to="float32")))

    def _inside(self, spots: Value) -> Value:
        w = self.w
        index = w.Cast(w.Max(spots, self._one(0.0)), to="int64")
        return w.Where(w.Less(index, self.last), index, self.last)

    def _is_inside(self, spots: Value) -> Value:
        return self.w.Cast(self.w.Not(self.outside(spots)), to="float32")

    def _one(self, value: float) -> Value:
        if not math.isfinite(value):
            raise ValueError(f"a coordinate of {value}")
        return self.w.Reshape(float(value), shape=[1])


def kernel(w: Writer, s: Sampling, distance: Value) -> Value:
    """Computes interpolation weights for distances, float32."""
    d = w.Abs(distance)
    if s.mode == "linear":
        return w.Max(w.Sub(1.0, d), 0.0)
    a = s.cubic
    near = _polynomial(w, d, (a + 2, -(a + 3), 0.0, 1.0))
    far = _polynomial(w, d, (a, -5 * a, 8 * a, -4 * a))
    far = w.Where(w.Less(d, 2.0), far, 0.0)
    return w.Where(w.Greater(d, 1.0), far, near)


def _polynomial(w: Writer, d: Value, factors: tuple[float, ...]) -> Value:
    result = w.Mul(d, factors[0])
    for factor in factors[1:-1]:
        result = w.Mul(w.Add(result, factor), d)
    return w.Add(result, factors[-1])


def along(
    w: Writer, data: Value, s: Sampling, part: Stretch, rank: int, work: str, masks: list[Value]
) -> tuple[Value, bool]:
    """Resizes along one axis. Returns the result, and whether a matrix product computes it; notes places outside a crop in
    `masks`.
    """
    crop = s.coordinates == "tf_crop_and_resize"
    column = [1] * rank
    column[part.axis] = -1
    if not part.known:
        return _along_computed(w, data, s, part, rank, work, masks)
    assert part.before is not None and part.after is not None and part.scale is not None
    taps, dense = resize_weights.elements(s, part.before, part.after, part.scale)
    w.expect(f"a Resize from {part.before:,} to {part.after:,}", nbytes=64 * taps + 12 * dense)
    x = resize_weights.places(s, part.before, part.after, part.scale, part.roi)
    outside = (x < 0) | (x > part.before - 1)
    if crop and outside.any():
        masks.append(w.constant(outside.reshape(column)))
    if s.mode == "nearest":
        index = resize_weights.nearest_index(s, x, part.before)
        return w.Gather(data, index, axis=part.axis), False
    index, weight = resize_weights.taps(s, x, part.before, part.scale)
    typed = np.float64 if work == "float64" else np.float32
    if dense:
        made = resize_weights.matrix(index, weight, part.before).astype(typed)
        return _multiplied(w, data, w.constant(made), part.axis, rank), True
    terms = []
    for i in range(index.shape[1]):
        if weight[:, i].any():
            taken = w.Gather(data, index[:, i], axis=part.axis)
            terms.append(w.Mul(taken, weight[:, i].reshape(column).astype(typed)))
    return w.Sum(*terms), False


def _along_computed(
    w: Writer, data: Value, s: Sampling, part: Stretch, rank: int, work: str, masks: list[Value]
) -> tuple[Value, bool]:
    others = [i for i in range(rank) if i != part.axis]
    axis = DynamicAxis(w, part)
    x = axis.places(s, part.roi)
    if s.coordinates == "tf_crop_and_resize":
        masks.append(w.unsqueeze(axis.outside(x), others))
    if s.mode == "nearest":
        return w.Gather(data, axis.nearest_index(s, x), axis=part.axis), False
    typed = (lambda v: w.Cast(v, to=work)) if work != "float32" else (lambda v: v)
    if s.antialias:
        index, weight = axis.matrix(s, x)
        taken = w.Gather(data, index, axis=part.axis)
        return _multiplied(w, taken, typed(weight), part.axis, rank), True
    terms = []
    for index, weight in axis.taps(s, x):
        taken = w.Gather(data, index, axis=part.axis)
        terms.append(w.Mul(taken, w.unsqueeze(typed(weight), others)))
    return w.Sum(*terms), False


def _multiplied(w: Writer, data: Value, matrix: Value, axis: int, rank: int) -> Value:
    """Multiplies data along an axis by matrix [out, in]."""
    if axis == rank - 2:
        return w.MatMul(matrix, data)
    turned = w.Transpose(matrix, perm=[1, 0])
    if axis == rank - 1:
        return w.MatMul(data, turned)
    order = [*(i for i in range(rank) if i != axis), axis]
    back = [order.index(i) for i in range(rank)]
    return w.Transpose(w.MatMul(w.Transpose(data, perm=order), turned), perm=back)


_COORDINATES = ("half_pixel_symmetric", "tf_crop_and_resize")
_TIES = (
    "Resize computes coordinates in float32 from sizes known only at run time: one almost midway between two inputs may "
    "take the other one"
)


@node_rule("resize", "Resize")
def resize_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Resize with antialiasing, cropping, a kept aspect ratio or integers, axis by axis."""
    given, dtype = node.attributes, node.dtype(0)
    if node.opset < 11:
        return _older(node)
    s = sampling(node)
    of_tf = s.coordinates == "tf_half_pixel_for_nn" and (s.mode, s.nearest) != (
        "nearest",
        "round_prefer_floor",
    )
    if (
        of_tf
        and (s.mode, s.nearest) == ("nearest", "floor")
        and dtype in (*FLOATS, "int8")
        and _repeats(node)
    ):
        return _half_pixel(node)
    refused = (
        of_tf
        or given.get("coordinate_transformation_mode") in _COORDINATES
        or (given.get("antialias", 0) and given.get("mode") != "nearest")
        or given.get("keep_aspect_ratio_policy", "stretch") != "stretch"
        or (dtype is not None and dtype not in (*FLOATS, "int8"))
    )
    if not refused:
        return _whole_sizes(node)
    return axis_by_axis(node)


def axis_by_axis(node: NodeView) -> Replacement | Refusal:
    """Rewrites a Resize of opset 11 or later as gathers and products."""
    s, dtype, given = sampling(node), node.dtype(0), node.attributes
    if s.mode != "nearest" and dtype not in FLOATS:
        return Refusal(
            f"interpolation of {dtype or 'an unknown type'}: ONNX does not define how it rounds",
            "a float type",
            "cast to float32 before the Resize, and back with the rounding that you want",
        )
    w = Writer(node)
    plan = unrefused(stretches(node, w))
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
    numerics = "Resize becomes a matrix product, for which TensorRT may use TF32" if products else ""
    unknown = [part for part in plan if not part.known and not part.idle]
    crop = s.coordinates == "tf_crop_and_resize"
    # Of sizes alone, coordinates are quotients of whole numbers, and rounded as such.
    if s.mode == "nearest" and any(part.scale is not None or crop for part in unknown):
        numerics = _TIES
    return Replacement(
        w.finish(result), f"Resize ({s.mode}, {s.coordinates}) axis by axis", numerics=numerics
    )


def _repeats(node: NodeView) -> bool:
    """Whether every input is repeated a whole number of times, so that no coordinate is midway between two."""
    scales, shape, sizes = node.constant(2), node.shape(0), node.constant(3)
    if scales is None or not scales.size:
        policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
        known = shape is not None and sizes is not None and len(shape) == sizes.size and policy == "stretch"
        if not known or not all(shape or [0]):
            return False
        scales = np.asarray(sizes) / np.array(shape)
    return bool(np.all((scales >= 1) & (scales == np.floor(scales))))


def _half_pixel(node: NodeView) -> Replacement:
    """Rewrites tf2onnx's UpSampling2D with half_pixel: floor((y + 1/2) / scale) is (y + 1/2) / scale - 1/2 rounded, halves
    up.
    """
    w = Writer(node)
    names = {attribute.name for attribute in node.proto.attribute}
    rest = {name: value for name, value in node.attributes.items() if name in names}
    rest |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    return Replacement(
        w.finish(w.Resize(*w.x, **rest)), "Resize with half_pixel, which takes the same inputs"
    )


def _older(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites a Resize of uint8 or bool in opset 10 through float32, which is exact for them."""
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
    """Completes sizes given for some axes only, as TensorRT takes unknown input lengths for negative ones."""
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

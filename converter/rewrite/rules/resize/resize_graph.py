"""Computes in the graph, in float32, what resize_weights.py computes in numpy, for sizes that only a run tells.

The nearest input is found in int64 where the scale is a quotient of sizes: TensorRT-RTX 1.6.1 divides float32 approximately
(7 / 14 is more than a half, seen on an H200), and a coordinate midway between two inputs is common.
"""

from __future__ import annotations

import math

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.resize.resize_plan import Stretch
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling


class DynamicAxis:
    """One axis whose input or output length is known at run time.

    The scale is over / under: int64[1] each where it comes from sizes (`whole`), else float32[1].
    """

    def __init__(self, w: Writer, part: Stretch) -> None:
        size, out, over, under = part.size, part.length, part.over, part.under
        assert size is not None and out is not None and over is not None and under is not None
        self.w = w
        self.size, self.out = size, out
        ends = (over, under)
        self.over, self.under = (w.Cast(v, to="float32") if part.whole else v for v in ends)
        self._ratio = ends if part.whole else None
        self.scale = w.Div(self.over, self.under)
        self.last = w.Sub(size, [1])

    def places(self, s: Sampling, roi: tuple[float, float]) -> Value:
        """Coordinates, float32[out]."""
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
        """int64[out]. x: as `places` gives them."""
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
        return w.Cast(self._inside(rounded), to="int64")

    def _whole_index(self, s: Sampling, over: Value, under: Value) -> Value:
        """The coordinate as a quotient of whole numbers, rounded by a division of whole numbers."""
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
        """What `places` divides, as int64[out] and int64[1]; the latter is positive."""
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
        """(index, weight) for each of the two or four neighbours, without antialiasing."""
        w = self.w
        floor = w.Floor(x)
        spots = [w.Add(floor, self._one(float(t))) for t in range(1 - s.reach, s.reach + 1)]
        weights = [self._kernel(s, w.Sub(spot, x)) for spot in spots]
        if s.exclude_outside:
            weights = [w.Mul(v, self._is_inside(p)) for v, p in zip(weights, spots, strict=True)]
            total = w.Sum(*weights)
            total = w.Where(w.Equal(total, self._one(0.0)), self._one(1.0), total)
            weights = [w.Div(weight, total) for weight in weights]
        return [(w.Cast(self._inside(p), to="int64"), v) for p, v in zip(spots, weights, strict=True)]

    def matrix(self, s: Sampling, x: Value) -> tuple[Value, Value]:
        """The inputs that count with antialiasing, edges repeated (int64[n]), and their weights (float32[out, n])."""
        w = self.w
        shrink = w.Min(self.scale, self._one(1.0))
        margin = w.Cast(w.Ceil(w.Div(self._one(float(s.reach)), shrink)), to="int64")
        count = w.Add(self.size, w.Mul(margin, [2]))
        spots = w.Cast(w.Sub(w.arange(count), margin), to="float32")
        distance = w.Mul(w.Sub(w.Unsqueeze(spots, axes=[0]), w.Unsqueeze(x, axes=[1])), shrink)
        weight = self._kernel(s, distance)
        if s.exclude_outside:
            weight = w.Mul(weight, w.Unsqueeze(self._is_inside(spots), axes=[0]))
        total = w.reduce("ReduceSum", weight, [1])
        total = w.Where(w.Equal(total, self._one(0.0)), self._one(1.0), total)
        return w.Cast(self._inside(spots), to="int64"), w.Div(weight, total)

    def outside(self, x: Value) -> Value:
        """Whether a coordinate is beyond the input, bool[out]."""
        w = self.w
        return w.Or(w.Less(x, self._one(0.0)), w.Greater(x, w.Cast(self.last, to="float32")))

    def _inside(self, spots: Value) -> Value:
        w = self.w
        return w.Min(w.Max(spots, self._one(0.0)), w.Cast(self.last, to="float32"))

    def _is_inside(self, spots: Value) -> Value:
        return self.w.Cast(self.w.Not(self.outside(spots)), to="float32")

    def _kernel(self, s: Sampling, distance: Value) -> Value:
        w = self.w
        d = w.Abs(distance)
        if s.mode == "linear":
            return w.Max(w.Sub(self._one(1.0), d), self._one(0.0))
        a = s.cubic
        near = self._polynomial(d, (a + 2, -(a + 3), 0.0, 1.0))
        far = self._polynomial(d, (a, -5 * a, 8 * a, -4 * a))
        far = w.Where(w.Less(d, self._one(2.0)), far, self._one(0.0))
        return w.Where(w.Greater(d, self._one(1.0)), far, near)

    def _polynomial(self, d: Value, factors: tuple[float, ...]) -> Value:
        w = self.w
        result = self._one(factors[0])
        for factor in factors[1:]:
            result = w.Add(w.Mul(result, d), self._one(factor))
        return result

    def _one(self, value: float) -> Value:
        if not math.isfinite(value):
            raise ValueError(f"a coordinate of {value}")
        return self.w.Reshape(float(value), shape=[1])

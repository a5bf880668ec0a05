"""Computes in the graph, in float32, what resize_weights.py computes in numpy, for sizes that only a run tells.

The nearest input is found in int64 where the scale is a quotient of sizes: TensorRT-RTX 1.6.1 divides float32 approximately
(7 / 14 is more than a half, seen on an H200), and a coordinate midway between two inputs is common.
"""

from __future__ import annotations

import math

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling


class DynamicAxis:
    """One axis whose input or output length is known at run time. size, out: int64[1].

    The scale is over / under: int64[1] each where it comes from sizes (`whole`), else float32[1].
    """

    def __init__(self, w: Writer, size: str, out: str, over: str, under: str, whole: bool) -> None:
        self.w = w
        self.size, self.out = size, out
        self.over, self.under = (w.cast(v, "float32") for v in (over, under)) if whole else (over, under)
        self._ratio = (over, under) if whole else None
        self.scale = w.do("Div", self.over, self.under)
        self.last = w.do("Sub", size, w.ints(1))

    def places(self, s: Sampling, roi: tuple[float, float]) -> str:
        """Coordinates, float32[out]."""
        w = self.w
        y = w.cast(w.arange(self.out), "float32")
        size, last = w.cast(self.size, "float32"), w.cast(self.last, "float32")
        length = w.do("Mul", self.scale, size)
        if s.coordinates in ("align_corners", "tf_crop_and_resize"):
            low, high = (0.0, 1.0) if s.coordinates == "align_corners" else roi
            single = w.do("Equal", length, self._one(1.0))
            gaps = w.do("Where", single, self._one(1.0), w.do("Sub", length, self._one(1.0)))
            begin = w.do("Mul", last, self._one(low))
            spread = w.do("Div", w.do("Mul", w.do("Mul", y, self._one(high - low)), last), gaps)
            if s.coordinates == "align_corners":
                return w.do("Where", single, self._one(0.0), spread)
            middle = w.do("Mul", last, self._one((high - low) / 2))
            return w.do("Add", begin, w.do("Where", single, middle, spread))
        if s.coordinates == "asymmetric":
            return w.do("Div", w.do("Mul", y, self.under), self.over)
        # (y + 1/2) / scale - 1/2 is ((2 y + 1) under - over) / (2 over); symmetric, with n outputs of m inputs,
        # m/2 (1 - n / (m scale)) more: ((2 y + 1 - n) under + (m - 1) over) / (2 over).
        twice = w.do("Add", w.do("Mul", y, self._one(2.0)), self._one(1.0))
        if s.coordinates == "half_pixel_symmetric":
            twice = w.do("Sub", twice, w.cast(self.out, "float32"))
            shift = w.do("Mul", last, self.over)
        elif s.coordinates == "tf_half_pixel_for_nn":
            shift = self._one(0.0)
        else:
            shift = w.do("Neg", self.over)
        whole = w.do("Add", w.do("Mul", twice, self.under), shift)
        x = w.do("Div", whole, w.do("Mul", self.over, self._one(2.0)))
        if s.coordinates == "pytorch_half_pixel":
            return w.do("Where", w.do("Equal", length, self._one(1.0)), self._one(-0.5), x)
        return x

    def nearest_index(self, s: Sampling, x: str) -> str:
        """int64[out]. x: as `places` gives them."""
        w = self.w
        if self._ratio and s.coordinates != "tf_crop_and_resize":
            return self._whole_index(s, *self._ratio)
        half = self._one(0.5)
        rounded = {
            "round_prefer_floor": lambda: w.do("Ceil", w.do("Sub", x, half)),
            "round_prefer_ceil": lambda: w.do("Floor", w.do("Add", x, half)),
            "floor": lambda: w.do("Floor", x),
            "ceil": lambda: w.do("Ceil", x),
        }[s.nearest]()
        return w.cast(self._inside(rounded), "int64")

    def _whole_index(self, s: Sampling, over: str, under: str) -> str:
        """The coordinate as a quotient of whole numbers, rounded by a division of whole numbers."""
        w = self.w
        above, below = self._quotient(s, over, under)
        if s.nearest.startswith("round"):  # ceil(x - 1/2), floor(x + 1/2)
            above = w.do("Add", w.do("Mul", above, w.ints(2)), below)
            below = w.do("Mul", below, w.ints(2))
            if s.nearest == "round_prefer_floor":
                above = w.do("Sub", above, w.ints(1))
        elif s.nearest == "ceil":
            above = w.do("Sub", w.do("Add", above, below), w.ints(1))
        # below the first input the first one counts: what a division does with a negative number is no matter
        index = w.do("Div", self._at_least_zero(above), below)
        return w.do("Where", w.do("Less", index, self.last), index, self.last)

    def _quotient(self, s: Sampling, over: str, under: str) -> tuple[str, str]:
        """What `places` divides, as int64[out] and int64[1]; the latter is positive."""
        w = self.w
        y = w.arange(self.out)
        length = w.do("Mul", over, self.size)  # times under
        single = w.do("Equal", length, under)
        if s.coordinates == "align_corners":
            spread = w.do("Mul", w.do("Mul", y, self.last), under)
            above = w.do("Where", single, w.ints(0), spread)
            return above, w.do("Where", single, w.ints(1), w.do("Sub", length, under))
        if s.coordinates == "asymmetric":
            return w.do("Mul", y, under), over
        twice = w.do("Add", w.do("Mul", y, w.ints(2)), w.ints(1))
        below = w.do("Mul", over, w.ints(2))
        if s.coordinates == "half_pixel_symmetric":
            above = w.do("Mul", w.do("Sub", twice, self.out), under)
            return w.do("Add", above, w.do("Mul", self.last, over)), below
        above = w.do("Mul", twice, under)
        if s.coordinates == "tf_half_pixel_for_nn":
            return above, below
        above = w.do("Sub", above, over)
        if s.coordinates == "pytorch_half_pixel":
            above = w.do("Where", single, w.do("Neg", over), above)
        return above, below

    def _at_least_zero(self, value: str) -> str:
        zero = self.w.ints(0)
        return self.w.do("Where", self.w.do("Less", value, zero), zero, value)

    def taps(self, s: Sampling, x: str) -> list[tuple[str, str]]:
        """(index, weight) for each of the two or four neighbours, without antialiasing."""
        w = self.w
        floor = w.do("Floor", x)
        spots = [w.do("Add", floor, self._one(float(t))) for t in range(1 - s.reach, s.reach + 1)]
        weights = [self._kernel(s, w.do("Sub", spot, x)) for spot in spots]
        if s.exclude_outside:
            weights = [w.do("Mul", v, self._is_inside(p)) for v, p in zip(weights, spots, strict=True)]
            total = w.do("Sum", *weights)
            total = w.do("Where", w.do("Equal", total, self._one(0.0)), self._one(1.0), total)
            weights = [w.do("Div", weight, total) for weight in weights]
        return [(w.cast(self._inside(p), "int64"), v) for p, v in zip(spots, weights, strict=True)]

    def matrix(self, s: Sampling, x: str) -> tuple[str, str]:
        """The inputs that count with antialiasing, edges repeated (int64[n]), and their weights (float32[out, n])."""
        w = self.w
        shrink = w.do("Min", self.scale, self._one(1.0))
        margin = w.cast(w.do("Ceil", w.do("Div", self._one(float(s.reach)), shrink)), "int64")
        count = w.do("Add", self.size, w.do("Mul", margin, w.ints(2)))
        spots = w.cast(w.do("Sub", w.arange(count), margin), "float32")
        distance = w.do("Mul", w.do("Sub", w.unsqueeze(spots, [0]), w.unsqueeze(x, [1])), shrink)
        weight = self._kernel(s, distance)
        if s.exclude_outside:
            weight = w.do("Mul", weight, w.unsqueeze(self._is_inside(spots), [0]))
        total = w.reduce("ReduceSum", weight, [1])
        total = w.do("Where", w.do("Equal", total, self._one(0.0)), self._one(1.0), total)
        return w.cast(self._inside(spots), "int64"), w.do("Div", weight, total)

    def outside(self, x: str) -> str:
        """Whether a coordinate is beyond the input, bool[out]."""
        w = self.w
        last = w.cast(self.last, "float32")
        return w.do("Or", w.do("Less", x, self._one(0.0)), w.do("Greater", x, last))

    def _inside(self, spots: str) -> str:
        w = self.w
        last = w.cast(self.last, "float32")
        return w.do("Min", w.do("Max", spots, self._one(0.0)), last)

    def _is_inside(self, spots: str) -> str:
        return self.w.cast(self.w.do("Not", self.outside(spots)), "float32")

    def _kernel(self, s: Sampling, distance: str) -> str:
        w = self.w
        d = w.do("Abs", distance)
        if s.mode == "linear":
            return w.do("Max", w.do("Sub", self._one(1.0), d), self._one(0.0))
        a = s.cubic
        near = self._polynomial(d, (a + 2, -(a + 3), 0.0, 1.0))
        far = self._polynomial(d, (a, -5 * a, 8 * a, -4 * a))
        beyond = w.do("Less", d, self._one(2.0))
        far = w.do("Where", beyond, far, self._one(0.0))
        return w.do("Where", w.do("Greater", d, self._one(1.0)), far, near)

    def _polynomial(self, d: str, factors: tuple[float, ...]) -> str:
        w = self.w
        result = self._one(factors[0])
        for factor in factors[1:]:
            result = w.do("Add", w.do("Mul", result, d), self._one(factor))
        return result

    def _one(self, value: float) -> str:
        if not math.isfinite(value):
            raise ValueError(f"a coordinate of {value}")
        return self.w.reshape(self.w.number(value, "float32"), [1])

"""Reads a Resize node axis by axis: lengths, scale and cropped part, as numbers where they are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.resize.resize_weights import Sampling


@dataclass(frozen=True)
class Stretch:
    """The resizing of one axis. before, after: its lengths, or None if `size` and `length` (int64[1]) hold them at run time.

    over, under: float32[1] whose quotient is the scale. ratio: the same as int64[1], where it comes from sizes.
    """

    axis: int
    before: int | None
    after: int | None
    scale: float | None
    roi: tuple[float, float]
    size: Value | None = None
    length: Value | None = None
    over: Value | None = None
    under: Value | None = None
    ratio: tuple[Value, Value] | None = None

    @property
    def known(self) -> bool:
        return self.before is not None and self.after is not None and self.scale is not None

    @property
    def idle(self) -> bool:
        """Whether the axis keeps its length and is not cropped."""
        same = self.before is not None and self.before == self.after
        return (self.scale == 1.0 or (same and self.scale is None)) and self.roi == (0.0, 1.0)


def sampling(node: NodeView) -> Sampling:
    given = node.attributes
    return Sampling(
        given.get("mode", "nearest"),
        given.get("coordinate_transformation_mode", "half_pixel"),
        given.get("nearest_mode", "round_prefer_floor"),
        float(given.get("cubic_coeff_a", -0.75)),
        bool(given.get("exclude_outside", 0)),
        bool(given.get("antialias", 0)) and given.get("mode") != "nearest",
    )


def stretches(node: NodeView, w: Writer) -> list[Stretch] | Refusal:
    """Returns the resizing of each axis that the node names. Nodes for unknown lengths are added to `w`."""
    shape = node.known_shape(0)
    axes = [a % len(shape) for a in node.attributes.get("axes") or range(len(shape))]
    rois = _rois(node, len(axes))
    if isinstance(rois, Refusal):
        return rois
    scales = node.constant(2) if node.input(2) else None
    if scales is not None and scales.size:
        return [
            _scaled(w, axis, shape[axis], float(scale), roi)
            for axis, scale, roi in zip(axes, scales.reshape(-1), rois, strict=True)
        ]
    if not node.input(3):
        return Refusal(
            f"the scales ({node.input(2)!r}) are computed at run time",
            "constant scales, or sizes",
            f"freeze them: --freeze {quote(node.input(2))}=VALUES",
        )
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    sizes = node.constant(3)
    befores = [shape[axis] for axis in axes]
    if sizes is not None and all(before is not None for before in befores):
        return _fixed(axes, [b or 0 for b in befores], [int(n) for n in sizes], policy, rois)
    parts = _computed(w, axes, befores, policy, rois)
    if sizes is None or policy != "stretch":
        return parts
    return [
        part if b is None else Stretch(part.axis, b, int(n), int(n) / b, part.roi)
        for part, b, n in zip(parts, befores, sizes, strict=True)
    ]


def _rois(node: NodeView, count: int) -> list[tuple[float, float]] | Refusal:
    if node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    values = node.constant(1)
    if values is None or values.size != 2 * count:
        return Refusal(
            f"roi ({node.input(1)!r}) is computed at run time",
            f"{2 * count} constant numbers: the begins of the axes, then their ends",
            f"freeze it: --freeze {quote(node.input(1))}=VALUES" if node.input(1) else "give the node a roi",
        )
    flat = values.astype(np.float64).reshape(-1)
    return [(float(flat[i]), float(flat[i + count])) for i in range(count)]


def _scaled(w: Writer, axis: int, before: int | None, scale: float, roi: tuple[float, float]) -> Stretch:
    if before is not None:
        # As onnxruntime has it: 12 * 0.41666666 is 5 in float32. Scales are rounded quotients of lengths.
        length = math.floor(np.float32(before) * np.float32(scale))
        exact = length / before if before else scale
        return Stretch(axis, before, length, exact if np.float32(exact) == np.float32(scale) else scale, roi)
    if scale == 1.0 and roi == (0.0, 1.0):
        return Stretch(axis, None, None, scale, roi)
    size = w.size(w.x[0], axis)
    factor = w.constant(np.array([scale], np.float32))
    length = w.Cast(w.Floor(w.Mul(w.Cast(size, to="float32"), factor)), to="int64")
    return Stretch(axis, None, None, scale, roi, size, length, factor, w.constant(np.ones(1, np.float32)))


def _fixed(
    axes: list[int], befores: list[int], sizes: list[int], policy: str, rois: list[tuple[float, float]]
) -> list[Stretch]:
    scales = [size / before for size, before in zip(sizes, befores, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(scales)
        sizes = [math.floor(scale * before + 0.5) for before in befores]
    return [Stretch(*parts) for parts in zip(axes, befores, sizes, scales, rois, strict=True)]


def _computed(
    w: Writer, axes: list[int], befores: list[int | None], policy: str, rois: list[tuple[float, float]]
) -> list[Stretch]:
    inputs = [w.size(w.x[0], axis) for axis in axes]
    lengths = [w.Gather(w.x[3], [i], axis=0) for i in range(len(axes))]
    unders, overs = inputs, lengths
    if policy != "stretch":
        over, under = overs[0], unders[0]
        for other_over, other_under in zip(overs[1:], unders[1:], strict=True):
            # The smaller scale, or the larger, by products of whole numbers.
            ours, theirs = w.Mul(over, other_under), w.Mul(other_over, under)
            better = w.write("Less" if policy == "not_larger" else "Greater", theirs, ours)
            over = w.Where(better, other_over, over)
            under = w.Where(better, other_under, under)
        # floor(size * over / under + 1/2)
        doubled, two = w.Mul(under, [2]), [2]
        scaled = [w.Add(w.Mul(w.Mul(size, over), two), under) for size in inputs]
        lengths = [w.Div(value, doubled) for value in scaled]
        overs, unders = [over] * len(axes), [under] * len(axes)
    # Once each: of two that are alike TensorRT-RTX 1.7.1 drops one behind an LSTM, and fails (gvn.cpp, "ssa_validation").
    floats = {value: w.Cast(value, to="float32") for value in dict.fromkeys((*overs, *unders))}
    return [
        Stretch(axis, None, None, None, roi, size, length, floats[over], floats[under], (over, under))
        for axis, roi, size, length, over, under in zip(
            axes, rois, inputs, lengths, overs, unders, strict=True
        )
    ]

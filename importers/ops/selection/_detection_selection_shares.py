"""Writes how much boxes overlap the best one of their image, in operators of ONNX, as the kernels compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share

ShareWith = Callable[[Callable[[Value], Value]], Value]
"""The share of every box with the best one, from a function that takes a number of that one."""


def polygon_share(g: Builder, numbers: Sequence[Value]) -> ShareWith:
    """Of rotated boxes, intersection over union."""
    x, y, width, height, angle = numbers
    boxes = rotated_share.prepare(g, x, y, width, height, angle)

    def share_with(of_best: Callable[[Value], Value]) -> Value:
        share = rotated_share.share(g, boxes, of_best)
        return g.Where(share > rotated_share.LEAST_SHARE, share, 0.0)

    return share_with


def upright_share(
    g: Builder, low: Sequence[Value], high: Sequence[Value], area: Value, extra: float
) -> ShareWith:
    """Intersection over union. extra: 1 where a box ends with its last pixel, or 0."""

    def share_with(of_best: Callable[[Value], Value]) -> Value:
        sides = [g.Min(high[i], of_best(high[i])) - g.Max(low[i], of_best(low[i])) for i in range(2)]
        common = (sides[0] + extra) * (sides[1] + extra)
        either = area + of_best(area) - common
        share = common / either
        unreal = (~(common > 0.0) | ~(either > 0.0)) & ~g.IsNaN(share)
        return g.Where((sides[0] < 0.0) | (sides[1] < 0.0) | unreal, 0.0, share)

    return share_with


def likeness(g: Builder, low: Sequence[Value], lengths: Sequence[Value], angle: Value) -> ShareWith:
    """ProbIoU as TensorRT-YOLO computes it, of rotated boxes as normal distributions: centres and covariances."""
    x, y = (low[i] + lengths[i] * 0.5 for i in range(2))
    variance_a, variance_b = (length * length / 12.0 for length in lengths)
    sine, cosine = g.Sin(angle), g.Cos(angle)
    sine_2, cosine_2 = sine * sine, cosine * cosine
    spread_a = variance_b * cosine_2 + variance_a * sine_2
    spread_b = variance_b * sine_2 + variance_a * cosine_2
    spread_c = (variance_b - variance_a) * (sine * cosine)
    own = g.Max(spread_a * spread_b - spread_c * spread_c, 0.0)

    def share_with(of_best: Callable[[Value], Value]) -> Value:
        apart_x, apart_y = x - of_best(x), y - of_best(y)
        sum_a, sum_b, sum_c = (spread + of_best(spread) for spread in (spread_a, spread_b, spread_c))
        determinant = g.Max(sum_a * sum_b - sum_c * sum_c, 1e-7)
        distance = sum_a * (apart_x * apart_x) + sum_b * (apart_y * apart_y) + sum_c * (apart_x * apart_y)
        ratio = determinant / (own * of_best(own) * 4.0)
        distance = distance * 0.25 / determinant + g.Log(ratio) * 0.5 / determinant
        return 1.0 - g.Sqrt(1.0 - g.Exp(-g.Max(g.Min(distance, 100.0), 1e-7)))

    return share_with

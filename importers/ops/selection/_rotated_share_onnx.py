"""Writes the intersection over union of rotated boxes in operators of ONNX, in float32, as the kernels compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trtsmith.importers.builder import Builder, Value

LEAST_SHARE = 1e-6

Point = tuple[Value, Value]


class RotatedBoxes(NamedTuple):
    """Rotated boxes, prepared for computing overlaps, all of one shape. area: 0 where a box overlaps nothing."""

    x: Value
    y: Value
    half_w: Value
    half_h: Value
    cosine: Value
    sine: Value
    area: Value


def prepare(
    g: Builder, x: Value, y: Value, width: Value, height: Value, angle: Value, *, clockwise: bool = True
) -> RotatedBoxes:
    area = width * height
    sound = ~(area < 1e-14) & (area < np.inf)
    for value in (x, y, angle):
        sound = sound & (g.Abs(value) < np.inf)
    turn = g.Where(sound, angle if clockwise else -angle, 0.0)
    half_w, half_h = (g.Where(sound, 0.5 * g.Abs(side), 1.0) for side in (width, height))
    x, y, area = (g.Where(sound, value, 0.0) for value in (x, y, area))
    return RotatedBoxes(x, y, half_w, half_h, g.Cos(turn), g.Sin(turn), area)


def share(g: Builder, boxes: RotatedBoxes, of_best: Callable[[Value], Value]) -> Value:
    """Computes every box's overlap with the best box. of_best: picks the best box's entry of a value."""
    best = RotatedBoxes(*map(of_best, boxes))
    apart_x, apart_y = boxes.x - best.x, boxes.y - best.y
    x = best.cosine * apart_x + best.sine * apart_y
    y = best.cosine * apart_y - best.sine * apart_x
    cosine = best.cosine * boxes.cosine + best.sine * boxes.sine
    sine = best.cosine * boxes.sine - best.sine * boxes.cosine
    along = cosine * boxes.half_w, sine * boxes.half_w
    across = -(sine * boxes.half_h), cosine * boxes.half_h
    corners = [
        (x - along[0] - across[0], y - along[1] - across[1]),
        (x + along[0] - across[0], y + along[1] - across[1]),
        (x + along[0] + across[0], y + along[1] + across[1]),
        (x - along[0] + across[0], y - along[1] + across[1]),
    ]
    inverses = [_inverse(g, 2.0 * side[0]) for side in (along, across)]
    inverses += [-inverse for inverse in inverses]
    first, second, third, fourth = (
        _along_edge(g, corners[i], corners[(i + 1) % 4], inverses[i], best.half_w, best.half_h)
        for i in range(4)
    )
    total = first + second + third + fourth
    common = g.Min(g.Max(-total, 0.0), g.Min(boxes.area, best.area))
    either = boxes.area + best.area - common
    real = (boxes.area > 0.0) & (best.area > 0.0) & (either > 0.0)
    return g.Where(real, common / g.Where(real, either, 1.0), 0.0)


def _inverse(g: Builder, length: Value) -> Value:
    """1 / length, or 0 for almost nothing."""
    long = g.Abs(length) > 1e-30
    return g.Where(long, 1.0 / g.Where(long, length, 1.0), 0.0)


def _limited(g: Builder, value: Value, limit: Value) -> Value:
    return g.Min(g.Max(value, -limit), limit)


def _along_edge(g: Builder, start: Point, end: Point, inverse: Value, half_w: Value, half_h: Value) -> Value:
    """The integral of y over x along an edge, both limited to the best box's half sides."""
    height = end[1] - start[1]
    begin, finish = (_limited(g, point[0], half_w) for point in (start, end))
    first, second = (start[1] + (x - start[0]) * inverse * height for x in (begin, finish))
    cut_first, cut_second = (_limited(g, y, half_h) for y in (first, second))
    same = g.Equal(cut_first, cut_second)
    ends = (cut_first - first) - (second - cut_second)
    flat = g.Where(same, 0.0, ends / g.Where(same, 1.0, second - first))
    mean = 0.5 * ((cut_first + cut_second) + flat * (cut_first - cut_second))
    return (finish - begin) * mean

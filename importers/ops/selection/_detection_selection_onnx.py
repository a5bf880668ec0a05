"""Expands the selection of detections: a Loop takes every image's best remaining candidate, one at a time.

Every score is one place of a list of its image, in the order that decides between equal scores. One more place, which no
step takes, makes lists of images without boxes long enough for ArgMax. All arithmetic is that of the kernel, in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion, Fields
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share

ShareWith = Callable[[Callable[[Value], Value]], Value]
"""The share of every box with the best one, from a function that takes a number of that one."""


def polygon_share(g: Builder, numbers: Sequence[Value]) -> ShareWith:
    """Computes the intersection over union of rotated boxes."""
    x, y, width, height, angle = numbers
    boxes = rotated_share.prepare(g, x, y, width, height, angle)

    def share_with(of_best: Callable[[Value], Value]) -> Value:
        share = rotated_share.share(g, boxes, of_best)
        return g.Where(share > rotated_share.LEAST_SHARE, share, 0.0)

    return share_with


def upright_share(
    g: Builder, low: Sequence[Value], high: Sequence[Value], area: Value, extra: float
) -> ShareWith:
    """Computes the intersection over union. extra: 1 where a box ends with its last pixel, or 0."""

    def share_with(of_best: Callable[[Value], Value]) -> Value:
        sides = [g.Min(high[i], of_best(high[i])) - g.Max(low[i], of_best(low[i])) for i in range(2)]
        common = (sides[0] + extra) * (sides[1] + extra)
        either = area + of_best(area) - common
        share = common / either
        unreal = (~(common > 0.0) | ~(either > 0.0)) & ~g.IsNaN(share)
        return g.Where((sides[0] < 0.0) | (sides[1] < 0.0) | unreal, 0.0, share)

    return share_with


def likeness(g: Builder, low: Sequence[Value], lengths: Sequence[Value], angle: Value) -> ShareWith:
    """Computes ProbIoU as TensorRT-YOLO does: rotated boxes as normal distributions, with centres and covariances."""
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


def above(g: Builder, value: Value, limit: float, inclusive: bool) -> Value:
    """Compares without GreaterOrEqual, which opset 11 lacks, and without negating Less, which would be true for a NaN."""
    more = value > limit
    return more | g.Equal(value, limit) if inclusive else more


class _ScorePlaces:
    """The places of the scores of each image, in order.

    scores, class_row, box_row: of each place, [images, places] or [1, places]. order: a transposition of [N, B, C, ...].
    """

    def __init__(self, g: Builder, fields: Fields, columns: int) -> None:
        self.g, self.fields = g, fields
        order = [0, 2, 1, 3] if fields["class_major"] else [0, 1, 2, 3]
        sizes = g.Shape("scores")
        self.images, self.boxes, self.classes = (sizes[i : i + 1] for i in range(3))
        self.count = self.boxes * self.classes
        groups = g.Concat(g.Shape("boxes")[2:-1], [1], axis=0)[:1]
        grouped = g.Reshape("boxes", [self.images, self.boxes, groups, columns])
        ones = g.ConstantOfShape([1, 1, self.classes, 1], value=_tensor(np.float32(1)))
        ordered = g.Transpose(grouped * ones, perm=order)
        self.table = g.Reshape(ordered, [self.images, self.count, columns])
        self.list_shape = g.vector(self.images, self.count)
        scores = g.Reshape("scores", [self.images, self.boxes, self.classes, 1])
        self.scores = g.Reshape(g.Transpose(scores, perm=order), self.list_shape)
        class_line = g.Reshape(g.arange(self.classes), [1, 1, self.classes, 1])
        box_line = g.Reshape(g.arange(self.boxes), [1, self.boxes, 1, 1])
        zeros = g.ConstantOfShape([1, self.boxes, self.classes, 1], value=_tensor(np.int64(0)))
        row_shape = g.vector(1, self.count)
        self.class_row, self.box_row = (
            g.Reshape(g.Transpose(line + zeros, perm=order), row_shape) for line in (class_line, box_line)
        )

    def candidates(self) -> Value:
        g, fields = self.g, self.fields
        wanted = above(g, self.scores, fields["score_threshold"], fields["inclusive"]) & ~g.Equal(
            self.class_row, fields["background_class"]
        )
        if fields["topk"] <= 0:
            return wanted
        class_major = fields["class_major"]
        perm = [0, 1, 2] if class_major else [0, 2, 1]
        first, second = (self.classes, self.boxes) if class_major else (self.boxes, self.classes)
        cube = g.Reshape(g.Where(wanted, self.scores, -np.inf), [self.images, first, second])
        least, _ = g.TopK([fields["topk"], self.boxes], [1], axis=0, largest=0, outputs=2)
        _, best = g.TopK(g.Transpose(cube, perm=perm), least, axis=2, outputs=2)
        none_in = g.ConstantOfShape([self.images, self.classes, self.boxes])
        these = g.ConstantOfShape(g.Shape(best), value=_tensor(np.float32(1)))
        by_class = g.ScatterElements(none_in, best, these, axis=2)
        in_list = g.Reshape(g.Transpose(by_class, perm=perm), self.list_shape)
        return wanted & g.Cast(in_list, to="bool")


def _tensor(value: np.generic) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array([value]))


def expand(expansion: Expansion) -> tuple[Value, ...]:
    g = Builder(expansion.opset)
    fields = expansion.fields
    rotated = fields["prob_iou"] or fields["polygon_iou"]
    columns = 5 if rotated else 4
    places = _ScorePlaces(g, fields, columns)
    table = places.table
    tail_shape = g.vector(places.images, 1)
    tail_number = g.Expand(0.0, tail_shape)
    if fields["box_coding"]:
        centre, half_size = g.Slice(table, [0], [2], [2]), g.Slice(table, [2], [4], [2]) * 0.5
        angle = [g.Slice(table, [4], [columns], [2])] if fields["prob_iou"] else []
        table = g.Concat(centre - half_size, centre + half_size, *angle, axis=2)
    numbers = [g.Concat(g.Gather(table, i, axis=2), tail_number, axis=1) for i in range(columns)]

    open_places = g.Concat(places.candidates(), g.Expand(False, tail_shape), axis=1)
    score = g.Concat(places.scores, g.Expand(-np.inf, tail_shape), axis=1)
    count = g.Add(places.count, [1])
    all_shape = g.vector(places.images, count)
    class_of, box_of = (
        g.Expand(g.Concat(row, np.array([[-1]]), axis=1), all_shape)
        for row in (places.class_row, places.box_row)
    )
    place_of = g.Reshape(g.arange(count), [1, count])
    low, high = ([corner(numbers[i], numbers[i + 2]) for i in range(2)] for corner in (g.Min, g.Max))
    extra = float(fields["pixels"])
    lengths = [high[i] - low[i] for i in range(2)]
    area = (lengths[0] + extra) * (lengths[1] + extra)
    is_number = ~g.IsNaN(area)
    if fields["polygon_iou"]:
        share_with = polygon_share(g, numbers)
    elif fields["prob_iou"]:
        share_with = likeness(g, low, lengths, numbers[4])
    else:
        share_with = upright_share(g, low, high, area, extra)

    def take_best(_i: Value, go: Value, open_places: Value, number: Value) -> tuple[Value, ...]:
        only_open = g.Where(open_places, score, -np.inf)
        top_score = g.GatherElements(only_open, g.ArgMax(only_open, axis=1, keepdims=1), axis=1)
        is_best = g.Cast(g.Equal(score, top_score) & open_places, to="int32")
        best = g.ArgMax(is_best, axis=1, keepdims=1)

        def of_best(values: Value) -> Value:
            return g.GatherElements(values, best, axis=1)

        valid = of_best(open_places)
        reached = above(g, share_with(of_best), fields["iou_threshold"], fields["inclusive"])
        over = reached & (is_number & of_best(is_number))
        if not fields["class_agnostic"]:
            over = over & g.Equal(class_of, of_best(class_of))
        gone = (over | g.Equal(place_of, best)) & valid
        return go, open_places & ~gone, number + g.Cast(valid, to="int64"), best, valid

    signature = """(int64 i, bool keep, bool[N, P] open, int64[N, U] count)
        => (bool go_on, bool[N, P] open_next, int64[N, U] count_next, int64[N, U] best, bool[N, U] valid)"""
    most = fields["max_output_boxes"]
    none_yet = g.Expand(np.array([[0]]), tail_shape)
    body = g.graph(signature, take_best)
    _, number, bests, valids = g.Loop(most, True, open_places, none_yet, body=body, outputs=4)

    rows_shape = g.vector(places.images, most)
    chosen, real = (g.Reshape(g.Transpose(each, perm=[1, 0, 2]), rows_shape) for each in (bests, valids))

    def of_rows(values: Value, filler: float) -> Value:
        return g.Where(real, g.GatherElements(values, chosen, axis=1), filler)

    column_shape = g.vector(places.images, most, 1)
    filler = fields["zero_filler"] - 1
    rows = []
    for i, values in enumerate(numbers):
        row = of_rows(values, 0.0)
        rows.append(g.Reshape(g.Clip(row, 0.0, 1.0) if fields["clip"] and i < 4 else row, column_shape))
    return (
        g.Cast(number, to="int32"),
        g.Concat(*rows, axis=2),
        of_rows(score, 0.0),
        g.Cast(of_rows(class_of, filler), to="int32"),
        g.Cast(of_rows(box_of, filler), to="int32"),
    )

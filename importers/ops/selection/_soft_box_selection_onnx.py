"""Expands the soft selection of boxes: a Loop takes the best box that is left, and lowers the scores of the others."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> tuple[Value, ...]:
    g = Builder(expansion.opset)
    fields = expansion.fields
    limit, sigma, offset = (float(fields[name]) for name in ("iou_threshold", "sigma", "offset"))
    first_x, first_y, second_x, second_y = (g.Gather("boxes", i, axis=1) for i in range(4))
    low_x, high_x = g.Min(first_x, second_x), g.Max(first_x, second_x)
    low_y, high_y = g.Min(first_y, second_y), g.Max(first_y, second_y)
    area = (high_x - low_x + offset) * (high_y - low_y + offset)
    steps = g.Squeeze(g.Shape("scores"))
    numbers = g.Range(0, steps, 1)
    is_number = g.Equal("scores", "scores")

    def take_best(_i: Value, _go: Value, score: Value, open_boxes: Value) -> tuple[Value, ...]:
        only_open = g.Where(open_boxes, score, -np.inf)
        top_score = g.Gather(only_open, g.ArgMax(only_open, axis=0, keepdims=1), axis=0)
        is_best = g.Cast(g.Equal(score, top_score) & open_boxes, to="int32")
        best = g.ArgMax(is_best, axis=0, keepdims=1)

        def of_best(values: Value) -> Value:
            return g.Gather(values, best, axis=0)

        valid, best_score = of_best(open_boxes), of_best(score)
        common_x = g.Min(high_x, of_best(high_x)) - g.Max(low_x, of_best(low_x)) + offset
        common_y = g.Min(high_y, of_best(high_y)) - g.Max(low_y, of_best(low_y)) + offset
        common = common_x * common_y
        either = area + of_best(area) - common
        real = (common_x > 0.0) & (common_y > 0.0) & (either > 0.0)
        share = g.Where(real, common / g.Where(real, either, 1.0), 0.0)
        if fields["method"] == 2:
            weight = g.Exp(-(share * share / sigma))
        else:
            weight = g.Where(share < limit, 1.0, 1.0 - share if fields["method"] == 1 else 0.0)
        lowered = score * weight
        gone = (lowered < float(fields["min_score"])) | g.IsNaN(lowered) | g.Equal(numbers, best)
        still_open = open_boxes & ~gone
        any_open = g.ReduceMax(g.Cast(still_open, to="int32"), keepdims=0)
        next_score = g.Where(still_open, lowered, 0.0)
        return g.Cast(any_open, to="bool"), next_score, still_open, best, best_score, valid

    signature = """(int64 i, bool keep, float[n] score, bool[n] open)
        => (bool go_on, float[n] score_next, bool[n] open_next, int64[k] best, float[k] best_score, bool[k] valid)"""
    start = g.Where(is_number, "scores", 0.0), is_number
    body = g.graph(signature, take_best)
    _, _, bests, best_scores, valids = g.Loop(steps, True, *start, body=body, outputs=5)
    valid = g.Reshape(valids, [-1])
    chosen, scores = (g.Compress(g.Reshape(each, [-1]), valid, axis=0) for each in (bests, best_scores))
    rows = g.Concat(g.Gather("boxes", chosen, axis=0), g.Reshape(scores, [-1, 1]), axis=1)
    return rows, chosen, g.Cast(g.Squeeze(g.Shape(chosen)), to="int32")

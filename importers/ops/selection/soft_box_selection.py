"""Selects boxes and lowers the scores of those that overlap a better one: soft non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    attrs,
)
from trtsmith.importers.ops._shared import FLAG, flag, size_faults, size_of, value_refusal


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


_NAIVE, _LINEAR, _GAUSSIAN = 0, 1, 2


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"dets": (*shapes["count"], 5), "inds": shapes["count"], "count": ()}


def _bounds(_fields: Fields, shapes: Shapes) -> dict[str, Any]:
    return {"count": shapes["scores"][0]}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    found = size_of(shapes, "boxes", 1)
    faults = [] if found in (4, None) else [f"boxes[1] = {found}, but a box has 4 numbers"]
    return faults + size_faults(shapes, ("boxes", 0, size_of(shapes, "scores", 0), "scores[0]"))


@np.errstate(invalid="ignore", over="ignore")
def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Bodla et al., arXiv 1704.04503, as mmcv computes it."""
    boxes, scores = inputs["boxes"].astype(np.float64), inputs["scores"].astype(np.float64)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = (high - low + fields["offset"]).prod(axis=1)
    left = [int(i) for i in np.flatnonzero(~np.isnan(scores))]
    inds: list[int] = []
    rows: list[np.ndarray] = []
    while left:
        best = max(left, key=lambda i: (scores[i], -i))
        inds.append(best)
        rows.append(np.append(boxes[best], scores[best]))
        left.remove(best)
        sides = np.minimum(high, high[best]) - np.maximum(low, low[best]) + fields["offset"]
        common = sides.prod(axis=1)
        either = areas + areas[best] - common
        real = (sides > 0).all(axis=1) & (either > 0)
        share = np.divide(common, either, out=np.zeros_like(common), where=real)
        if fields["method"] == _GAUSSIAN:
            weight = np.exp(-(share**2) / fields["sigma"])
        else:
            lowered = 1 - share if fields["method"] == _LINEAR else np.zeros_like(share)
            weight = np.where(share >= np.float32(fields["iou_threshold"]), lowered, 1.0)
        scores = scores * weight
        left = [i for i in left if scores[i] >= np.float32(fields["min_score"])]
    return {
        "dets": np.array(rows).reshape(-1, 5),
        "inds": np.array(inds, np.int64),
        "count": np.array(len(inds), np.int32),
    }


def _torch_reference(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    """In float32 for halves: what is lowered often loses little each time."""
    import torch

    dtype = torch.promote_types(inputs["boxes"].dtype, torch.float32)
    boxes, scores = inputs["boxes"].to(dtype), inputs["scores"].to(dtype).clone()
    first, second = boxes[:, :2], boxes[:, 2:]
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    left = (~scores.isnan()).nonzero()[:, 0]
    inds, best_scores = [], []
    while len(left):
        place = int((scores[left] == scores[left].max()).nonzero()[0, 0])
        best = left[place]
        inds.append(best)
        best_scores.append(scores[best])
        left = torch.cat([left[:place], left[place + 1 :]])
        meet = torch.minimum(high[left], high[best]) - torch.maximum(low[left], low[best]) + fields["offset"]
        common = meet.clamp(min=0).prod(dim=1)
        each = (high[left] - low[left] + fields["offset"]).prod(dim=1)
        either = each + (high[best] - low[best] + fields["offset"]).prod() - common
        share = (common / either).nan_to_num(0.0, 0.0, 0.0)
        share = share.masked_fill(~(either > 0), 0.0)
        if fields["method"] == _GAUSSIAN:
            scores[left] *= (-share * share / fields["sigma"]).exp()
        else:
            weak = 1 - share if fields["method"] == _LINEAR else torch.zeros_like(share)
            scores[left] *= torch.where(share >= float(np.float32(fields["iou_threshold"])), weak, 1.0)
        left = left[scores[left] >= float(np.float32(fields["min_score"]))]
    count = torch.tensor(len(inds), dtype=torch.int32, device=boxes.device)
    if not inds:
        return inputs["boxes"].new_zeros((0, 5)), left.new_zeros(0), count
    chosen, column = torch.stack(inds), torch.stack(best_scores)[:, None].to(inputs["boxes"].dtype)
    return torch.cat([inputs["boxes"][chosen], column], dim=1), chosen, count


def _inputs(count: int, *, spread: float = 3.0, ties: int = 0, whole: bool = False) -> Any:
    """Boxes of about unit size, corners in any order; whole: of whole numbers."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        middle, size = rng.normal(size=(count, 2)) * spread, rng.uniform(0.4, 2.0, (count, 2))
        if whole:
            middle, size = np.round(middle * 4), np.round(size * 4) * 2
        sign = rng.choice([-1, 1], (count, 2))
        scores = rng.random(count)
        return {
            "boxes": np.concatenate([middle - sign * size / 2, middle + sign * size / 2], axis=1),
            "scores": np.floor(scores * ties + 1) / (ties + 1) if ties else scores,
        }

    return make


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Boxes without an area, duplicates, negative and NaN scores, and boxes that are not finite, which drop out."""
    nan, inf = float("nan"), float("inf")
    boxes = [
        [0, 0, 1, 1], [0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5], [0, 0, 1, 0], [nan, 0, 1, 1], [-inf, -inf, inf, inf],
        [0, 0, 1, 1], [0, 0, 1, 0.375], [5, 5, 6, 6],
    ]  # fmt: skip
    scores = [0.5, 0.5, 0.875, 0.75, 0.0625, 0.09375, nan, -1, 2]
    return {"boxes": np.array(boxes), "scores": np.array(scores)}


def _with(method: int = _LINEAR, **changed: Any) -> dict[str, Any]:
    usual = {"iou_threshold": 0.3125, "sigma": 0.5, "min_score": 0.0625, "method": method, "offset": 0}
    return usual | changed


def _guard(node: AliasedNode) -> Refusal | None:
    attrs = node.attrs
    if attrs["method"] not in (0, 1, 2):
        expected = "0 (naive), 1 (linear) or 2 (gaussian)"
        return Refusal(f"method = {attrs['method']}", expected, "correct 'method'")
    if (refusal := value_refusal(node, {"offset": FLAG, "iou_threshold": [0, 1]})) is not None:
        return refusal
    if attrs["method"] == _GAUSSIAN and not attrs["sigma"] > 0:
        return Refusal(f"sigma = {attrs['sigma']}", "a number above 0", "correct 'sigma'")
    return None


SOFT_BOX_SELECTION = OpDef(
    name="SoftBoxSelection",
    selects="detections",
    doc=(
        "Boxes in falling order of their scores, which every better one that overlaps them lowers; those whose score falls "
        "below min_score drop out. Of equal scores the first wins. The best box stays whatever its score is."
    ),
    inputs=(
        Port("boxes", "T", 2, "[boxes, 4]: two opposite corners"),
        Port("scores", "T", 1, "[boxes]; a NaN is the score of no candidate"),
    ),
    outputs=(
        Port("dets", "T", 2, "[count, 5]: boxes as given, and their lowered scores"),
        Port("inds", "N", 1, "[count]: which of the boxes"),
        Port("count", "S", 0, "number of boxes that are left", size=True),
    ),
    fields=(
        Field("iou_threshold", Kind.FLOAT, "intersection over union from which methods 0 and 1 lower scores"),
        Field("sigma", Kind.FLOAT, "of method 2"),
        Field("min_score", Kind.FLOAT, "boxes with a lower score drop out"),
        Field(
            "method",
            Kind.INT,
            "scores are multiplied by 0: 0; 1: 1 - IoU; 2: exp(-IoU^2 / sigma)",
            default=_LINEAR,
            allowed=(_NAIVE, _LINEAR, _GAUSSIAN),
        ),
        flag("offset", "sides are larger by so much than corners are apart"),
    ),
    shape=_shape,
    bounds=_bounds,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=(
        Alias(
            op_type="SoftNonMaxSuppression",
            domains=("mmcv",),
            inputs=("boxes", "scores"),
            attributes=attrs(iou_threshold=float, sigma=float, min_score=float, method=int, offset=int),
            outputs=("dets", "inds"),
            guard=_guard,
            source="mmcv, ops/nms.py; 1.x, soft_nms.cpp for onnxruntime",
        ),
    ),
    tolerance={"float32": 8e-9, "float16": 2.4e-5, "bfloat16": 2e-4},
    cases=(
        Case("one_of_each", _with(min_score=0.0), _inputs(2)),
        Case("no_other", _with(), _inputs(1)),
        Case("naive", _with(_NAIVE), _inputs(60)),
        Case("linear", _with(_LINEAR), _inputs(60)),
        Case("gaussian", _with(_GAUSSIAN), _inputs(60)),
        Case("wide_gaussian", _with(_GAUSSIAN, sigma=4.0, min_score=0.0), _inputs(70)),
        Case("pixels", _with(_LINEAR, offset=1), _inputs(50, whole=True)),
        Case("all_low", _with(min_score=2.0), _inputs(40)),
        Case("all_stay", _with(min_score=-1.0), _inputs(40)),
        Case("all_apart", _with(min_score=0.0), _inputs(50, spread=1e3)),
        Case("one_cluster", _with(_NAIVE, iou_threshold=0.0625), _inputs(90, spread=0.02)),
        Case("equal_scores", _with(_NAIVE), _inputs(120, ties=4)),
        Case("more_than_a_block", _with(_GAUSSIAN), _inputs(1500, spread=15.0)),
        Case("strange", _with(_LINEAR, min_score=0.125), _strange),
        Case("strange_gaussian", _with(_GAUSSIAN, min_score=0.125), _strange),
        Case("no_boxes", _with(), _inputs(0)),
        Case("many", _with(_NAIVE), _inputs(5000, spread=20.0), large=True),
    ),
    workspace=True,
)

"""Makes test inputs for the selection of detections, and benchmarks in the sizes of networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Fields, Shapes, Work

_DEFAULTS = {
    "score_threshold": 0.25,
    "iou_threshold": 0.5,
    "inclusive": 0,
    "max_output_boxes": 20,
    "topk": 0,
    "background_class": -1,
    "class_agnostic": 0,
    "box_coding": 0,
    "prob_iou": 0,
    "polygon_iou": 0,
    "pixels": 0,
    "clip": 0,
    "class_major": 0,
    "zero_filler": 0,
}


def with_fields(**fields: Any) -> dict[str, Any]:
    """Returns all fields, with the usual values of those that are not given."""
    return _DEFAULTS | fields


def _inputs(
    batch: int,
    boxes: int,
    classes: int,
    *,
    groups: int = 0,
    last: bool = False,
    ties: int = 0,
    centres: bool = False,
    angles: bool = False,
    spread: float = 2.0,
    offset: float = 0.0,
) -> Any:
    """Boxes of about unit size whose centres are normal with deviation `spread`; corners in any order.

    groups: boxes for each place, 0: no such axis. last: scores have one more axis, of 1. ties: how many different scores
    there are; 0: any. angles: boxes have one, as a fifth number.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        shape = (batch, boxes, groups) if groups else (batch, boxes)
        middle = rng.normal(size=(*shape, 2)) * spread + offset
        size = rng.uniform(0.4, 2.0, (*shape, 2))
        sign = rng.choice([-1, 1], (*shape, 2))
        first, second = (middle, size) if centres else (middle - sign * size / 2, middle + sign * size / 2)
        scores = rng.random((batch, boxes, classes, 1) if last else (batch, boxes, classes))
        third = rng.uniform(-4, 4, (*shape, int(angles)))
        unit = 32 if angles else 1  # a ProbIoU that depends on the unit is near 0 for small ones
        return {
            "boxes": np.concatenate([unit * first, unit * second, third], axis=-1),
            "scores": np.floor(scores * ties) / ties if ties else scores,
        }

    return make


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Boxes without an area, twice the same, infinitely large; scores of zero, infinite, not a number."""
    same, point, line = [0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5], [0, 0, 1, 0]
    inf, nan = float("inf"), float("nan")
    boxes = [same, same, point, line, [0, 0, inf, 1], [-inf, -inf, inf, inf], same, [0, 0, 1, 0.375], line]
    scores = [[0.0, 1], [-0.0, 1], [0.875, 1], [0.75, 1], [0.625, 1], [inf, -1], [nan, nan], [-inf, 0.5]]
    return {"boxes": np.array([boxes]), "scores": np.array([[*scores, [0.5, 0.25]]])}


def _rotated(batch: int, boxes: int, classes: int, *, groups: int = 1) -> Any:
    """Boxes of centre, size and angle."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        shape = (batch, boxes, groups)
        middle, size = rng.normal(size=(*shape, 2)) * 2.0, rng.uniform(0.4, 3.0, (*shape, 2))
        turned = np.concatenate([middle, size, rng.uniform(-4, 4, (*shape, 1))], axis=-1)
        return {"boxes": turned, "scores": rng.random((batch, boxes, classes))}

    return make


def _turned(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rotated boxes: the same twice, by a right angle, with negative sides, without an area."""
    right = float(np.pi / 2)
    boxes = [
        [0, 0, 2, 1, 0],
        [0, 0, 2, 1, 0],
        [0, 0, 1, 2, right],
        [0, 0, -2, -1, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 2, -1, 0],
    ]
    return {"boxes": np.array([boxes]), "scores": np.arange(6, 0, -1).reshape(1, 6, 1) / 8}


def _no_numbers(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Boxes of which a coordinate is no number have the lowest scores: none of them gets into the rows."""
    nan = float("nan")
    boxes = [[0, 0, 1, 1], [4, 4, 5, 5], [nan, 0, 1, 1], [0, 0, 1, nan]]
    return {"boxes": np.array([boxes]), "scores": np.array([[[0.9], [0.8], [0.7], [0.6]]])}


CASES = (
    Case("one_of_each", with_fields(max_output_boxes=1), _inputs(1, 1, 1)),
    Case("few", with_fields(), _inputs(1, 40, 3)),
    Case("batch", with_fields(iou_threshold=0.3125, inclusive=1), _inputs(3, 70, 5)),
    Case("box_for_each_class", with_fields(zero_filler=1), _inputs(2, 33, 4, groups=4)),
    Case("axes_of_one", with_fields(), _inputs(2, 33, 4, groups=1, last=True)),
    Case("centres", with_fields(box_coding=1, iou_threshold=0.25), _inputs(2, 65, 3, centres=True)),
    Case("class_agnostic", with_fields(class_agnostic=1, iou_threshold=0.25), _inputs(2, 65, 3)),
    Case("background", with_fields(background_class=1), _inputs(1, 30, 3)),
    Case("equal_scores_by_box", with_fields(), _inputs(2, 120, 3, ties=4)),
    Case("equal_scores_by_class", with_fields(class_major=1, inclusive=1), _inputs(2, 120, 3, ties=4)),
    Case("all_equal", with_fields(max_output_boxes=50, score_threshold=-1.0), _inputs(2, 90, 3, ties=1)),
    Case("limited_classes", with_fields(topk=3, class_major=1, iou_threshold=0.75), _inputs(2, 50, 4, ties=8)),
    Case("limit_above_the_boxes", with_fields(topk=70), _inputs(1, 50, 2)),
    Case("pixels", with_fields(pixels=1, iou_threshold=0.3125), _inputs(2, 60, 2, spread=4.0)),
    Case("clipped", with_fields(clip=1), _inputs(1, 60, 2, spread=0.5, offset=0.5)),
    Case("rotated", with_fields(prob_iou=1, iou_threshold=0.25), _inputs(2, 60, 2, angles=True)),
    Case("rotated_centres", with_fields(prob_iou=1, box_coding=1, inclusive=1, clip=1),
         _inputs(2, 60, 2, centres=True, angles=True, groups=2)),
    Case("polygons", with_fields(polygon_iou=1, iou_threshold=0.125), _rotated(2, 60, 3)),
    Case("polygons_for_each_class", with_fields(polygon_iou=1, topk=8, class_major=1), _rotated(2, 40, 3, groups=3)),
    Case("polygons_class_agnostic", with_fields(polygon_iou=1, class_agnostic=1, iou_threshold=0.0),
         _rotated(1, 300, 2)),
    Case("strange_polygons", with_fields(polygon_iou=1, iou_threshold=0.375, score_threshold=-1.0), _turned),
    Case("nothing_overlaps", with_fields(iou_threshold=1.0), _inputs(1, 40, 2, spread=0.1)),
    Case("everything_overlaps", with_fields(iou_threshold=0.0, inclusive=1), _inputs(2, 40, 2)),
    Case("none_above", with_fields(score_threshold=2.0), _inputs(2, 30, 2)),
    Case("scores_below_zero", with_fields(score_threshold=-3.0), _inputs(1, 30, 2)),
    Case("more_rows_than_boxes", with_fields(max_output_boxes=50), _inputs(2, 7, 3)),
    Case("more_than_a_tile", with_fields(max_output_boxes=300, iou_threshold=0.75), _inputs(1, 700, 1)),
    Case("one_cluster", with_fields(iou_threshold=0.125), _inputs(1, 600, 1, spread=0.05)),
    Case("strange", with_fields(iou_threshold=0.375, score_threshold=-1.0), _strange),
    Case("strange_inclusive", with_fields(iou_threshold=0.0, score_threshold=0.0, inclusive=1), _strange),
    Case("boxes_without_numbers", with_fields(max_output_boxes=2), _no_numbers),
    Case("no_boxes", with_fields(), _inputs(2, 0, 3)),
    Case("no_classes", with_fields(), _inputs(2, 5, 0)),
    Case("no_images", with_fields(), _inputs(0, 5, 3)),
    # More candidates than are sorted at a time: of many scores, of few, of one, and where most are dropped.
    Case("few_of_many", with_fields(score_threshold=0.9921875), _inputs(3, 9000, 3, spread=40.0), large=True),
    Case("many", with_fields(max_output_boxes=3000, iou_threshold=0.875), _inputs(2, 6000, 2), large=True),
    Case("many_ties", with_fields(max_output_boxes=4000, class_major=1), _inputs(2, 9000, 3, ties=3, spread=30.0),
         large=True),
    Case("many_equal", with_fields(max_output_boxes=500, score_threshold=-1.0), _inputs(1, 30_000, 1, ties=1),
         large=True),
    Case("many_dropped", with_fields(max_output_boxes=100, iou_threshold=0.015625),
         _inputs(1, 20_000, 1, spread=0.5), large=True),
    Case("many_of_each_class", with_fields(topk=1000, max_output_boxes=2000), _inputs(2, 3000, 3, ties=500, spread=20.0),
         large=True),
    Case("many_polygons", with_fields(polygon_iou=1, max_output_boxes=200, iou_threshold=0.125),
         _rotated(1, 4200, 1), large=True),
    Case("detector", with_fields(max_output_boxes=100, score_threshold=0.875), _inputs(2, 8400, 80, spread=40.0),
         large=True),
)  # fmt: skip


BATCH, BOXES, CLASSES, PIXELS = 8, 8400, 80, 640
OBJECTS, COPIES = 30, 10
"""Objects of an image, and boxes of each, which are near it and share its class."""


def work(_fields: Fields, shapes: Shapes) -> Work:
    """Counts one comparison of every score with the threshold; the compared boxes depend on values and are left out."""
    return Work(flops=math.prod(shapes["scores"]))


def _boxes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Corners [N, B, 4] in pixels, and the class of the object of each of the first boxes."""
    middle = rng.uniform(0, PIXELS, (BATCH, BOXES, 2))
    size = rng.uniform(16, 200, (BATCH, BOXES, 2))
    near = OBJECTS * COPIES
    middle[:, :near] = np.repeat(middle[:, :OBJECTS], COPIES, axis=1) + rng.normal(size=(BATCH, near, 2)) * 4
    size[:, :near] = np.repeat(size[:, :OBJECTS], COPIES, axis=1) * rng.uniform(0.9, 1.1, (BATCH, near, 2))
    classes = np.repeat(rng.integers(0, CLASSES, (BATCH, OBJECTS)), COPIES, axis=1)
    return np.concatenate([middle - size / 2, middle + size / 2], axis=-1), classes


def _detector(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Scores of objects above 0.25; those of the background are small, normal before their sigmoid."""
    boxes, classes = _boxes(rng)
    scores = 1 / (1 + np.exp(6.5 - 0.8 * rng.normal(size=(BATCH, BOXES, CLASSES))))
    image = np.arange(BATCH)[:, None]
    scores[image, np.arange(OBJECTS * COPIES), classes] = rng.uniform(0.3, 1.0, classes.shape)
    return {"boxes": boxes, "scores": scores}


def _dense(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every score is that of a candidate."""
    return {"boxes": _boxes(rng)[0], "scores": rng.uniform(0.26, 1.0, (BATCH, BOXES, CLASSES))}


def _case(name: str, threshold: float, inputs: Any) -> Case:
    fields = with_fields(score_threshold=threshold, max_output_boxes=100, inclusive=1, zero_filler=1)
    return Case(name, fields, inputs, large=True)


BENCHMARKS = (
    # 300 candidates of an image, about 4,100, and 672,000.
    _case("detector_sparse", 0.25, _detector),
    _case("detector_mid", 0.0113, _detector),
    _case("detector_dense", 0.25, _dense),
)

"""Non-maximum suppression of rotated boxes, for each image and class."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Arrays,
    Case,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
)
from trtsmith.importers.ops._shared import flag
from trtsmith.importers.ops.selection._rotated_box_selection_aliases import ROTATED_BOX_SELECTION_ALIASES
from trtsmith.importers.ops.selection._rotated_box_selection_onnx import expand
from trtsmith.importers.ops.selection._rotated_share import LEAST_SHARE, shares, torch_shares
from trtsmith.importers.ops.selection._selected_boxes import (
    NO_LIMIT,
    SELECTED,
    box_faults,
    selected_bounds,
    selected_shape,
)


def _check(_fields: Fields, shapes: Any) -> list[str]:
    return box_faults(shapes, 5, "rotated box")


def _turn(fields: Fields) -> float:
    return 1.0 if fields["clockwise"] else -1.0


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One box after the other: the best that is left, without those that it overlaps."""
    boxes, scores = inputs["boxes"].astype(np.float64), inputs["scores"].astype(np.float32)
    rows: list[tuple[int, int, int]] = []
    for image, class_ in np.ndindex(scores.shape[:2]):
        of_class = scores[image, class_]
        left = np.flatnonzero(of_class > np.float32(fields["score_threshold"]))
        left = left[np.argsort(-of_class[left], kind="stable")]
        taken = 0
        while len(left) and taken < fields["most"]:
            rows.append((image, class_, int(left[0])))
            taken += 1
            found = shares(boxes[image, left[0]], boxes[image, left[1:]], _turn(fields))
            left = left[1:][~(found > max(fields["iou_threshold"], LEAST_SHARE))]
    return {"selected": np.array(rows, np.int64).reshape(-1, 3), "count": np.array(len(rows), np.int32)}


def _torch_reference(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    import torch

    boxes, scores = inputs["boxes"], inputs["scores"].float()
    rows = [torch.zeros((0, 3), dtype=torch.int64, device=boxes.device)]
    for image in range(scores.shape[0]):
        for class_ in range(scores.shape[1]):
            order = scores[image, class_].argsort(descending=True, stable=True)
            above = scores[image, class_] > fields["score_threshold"]
            left = order[above[order]]
            kept: list[Any] = []
            while len(left) and len(kept) < fields["most"]:
                kept.append(left[:1])
                found = torch_shares(boxes[image, left[:1]], boxes[image, left[1:]], _turn(fields))
                left = left[1:][~(found > max(fields["iou_threshold"], LEAST_SHARE))]
            if kept:
                chosen = torch.cat(kept)
                rows.append(
                    torch.stack([torch.full_like(chosen, n) for n in (image, class_)] + [chosen], dim=1)
                )
    selected = torch.cat(rows)
    return selected, torch.tensor(len(selected), dtype=torch.int32, device=boxes.device)


def _inputs(
    batch: int, classes: int, boxes: int, *, ties: int = 0, spread: float = 4.0, across: float = 0.3
) -> Any:
    """Boxes whose centres are normal with deviation `spread`, of sides up to 3 and `across` to 2, at any angle.

    ties: how many different scores there are; 0: any.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        middle = rng.normal(size=(batch, boxes, 2)) * spread
        along, width = rng.uniform(0.5, 3.0, (batch, boxes, 1)), rng.uniform(across, 2.0, (batch, boxes, 1))
        angle = rng.uniform(-4, 4, (batch, boxes, 1))
        scores = rng.random((batch, classes, boxes))
        return {
            "boxes": np.concatenate([middle, along, width, angle], axis=2),
            "scores": np.floor(scores * ties) / ties if ties else scores,
        }

    return make


def _clusters(boxes: int, copies: int) -> Any:
    """Groups of boxes that are nearly the same, apart from each other."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        objects = -(-boxes // copies)
        side = int(np.ceil(objects**0.5))
        middle = 32.0 * np.stack(np.divmod(np.arange(objects), side), axis=1)
        size = rng.uniform([[6.0, 3.0]], [[16.0, 8.0]], (objects, 2))
        one = np.concatenate([middle, size, rng.uniform(-2, 2, (objects, 1))], axis=1)
        every = np.repeat(one, copies, axis=0)[:boxes]
        every += rng.uniform(-1, 1, every.shape) * [0.125, 0.125, 0.25, 0.25, 0.0625]
        return {"boxes": every[None], "scores": rng.random((1, 1, boxes))}

    return make


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Boxes without an area, the same twice, turned by right angles, not finite; scores infinite and not a number."""
    nan, inf, right = float("nan"), float("inf"), float(np.pi / 2)
    boxes = [
        [0, 0, 2, 1, 0], [0, 0, 2, 1, 0], [0, 0, 1, 2, right], [0, 0, -2, -1, 0], [0, 0, 2, 1, 2 * right],
        [0, 0, 2, 0, 0], [0, 0, 0, 0, 0], [0, 0, -2, 1, 0], [nan, 0, 2, 1, 0], [0, inf, 2, 1, 0],
        [0, 0, inf, 1, 0], [0, 0, 2, 1, nan], [0, 0, 2, 1, inf], [0, 0, 2, nan, 0], [0, 1, 2, 1, 0], [2, 0, 2, 1, 0],
    ]  # fmt: skip
    scores = np.arange(16, 0, -1) / 16
    others = np.where(np.arange(16) % 5 == 3, nan, np.where(np.arange(16) % 7 == 2, inf, scores[::-1]))
    return {"boxes": np.array([boxes]), "scores": np.array([[scores, others]])}


def _with(
    overlap: float = 0.5, floor: float = 0.0, clockwise: int = 1, most: int = NO_LIMIT
) -> dict[str, Any]:
    return {"iou_threshold": overlap, "score_threshold": floor, "clockwise": clockwise, "most": most}


ROTATED_BOX_SELECTION = OpDef(
    name="RotatedBoxSelection",
    selects="detections",
    doc=(
        "Non-maximum suppression of rotated boxes for each class: the boxes that remain, sorted by score, and their "
        "number. Of two equal scores the first wins. A box with a number that is not finite, or with an area below "
        "1e-14, overlaps nothing. The intersection over union is computed from polygons in float32; up to 1e-6 counts as 0."
    ),
    inputs=(
        Port("boxes", "T", 3, "[batch, boxes, 5]: centre x and y, width, height, angle in radians"),
        Port("scores", "T", 3, "[batch, classes, boxes]; a NaN is the score of no candidate"),
    ),
    outputs=SELECTED,
    fields=(
        Field("iou_threshold", Kind.FLOAT, "intersection over union above which two boxes overlap"),
        Field("score_threshold", Kind.FLOAT, "scores of candidates are above", default=0.0),
        flag(
            "clockwise",
            "1: angles turn from x towards y (clockwise where y points down), 0: from y towards x",
            default=1,
        ),
        Field("most", Kind.INT, "boxes of each class and image, at most", default=NO_LIMIT, minimum=0),
    ),
    shape=selected_shape,
    bounds=selected_bounds,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=ROTATED_BOX_SELECTION_ALIASES,
    cases=(
        Case("one_of_each", _with(), _inputs(1, 1, 1)),
        Case("few", _with(0.25), _inputs(1, 1, 40, spread=2.0)),
        Case("classes", _with(0.125, 0.25), _inputs(1, 5, 33)),
        Case("batch", _with(0.25), _inputs(3, 2, 70)),
        Case("counter_clockwise", _with(0.125, clockwise=0), _inputs(2, 2, 65, spread=2.0)),
        Case("limited", _with(0.25, most=5), _inputs(2, 3, 130)),
        Case("none_wanted", _with(most=0), _inputs(1, 2, 20)),
        Case("none_above", _with(floor=1.5), _inputs(1, 2, 50)),
        Case("below_zero", _with(floor=-1.0), _inputs(1, 2, 50)),
        Case("all_apart", _with(0.0), _inputs(1, 2, 100, spread=1e3)),
        Case("equal_scores", _with(0.125), _inputs(2, 2, 200, ties=4)),
        Case("one_cluster", _with(0.125), _inputs(1, 1, 300, spread=0.1)),
        Case("all_that_touch", _with(0.0), _inputs(1, 2, 100)),
        Case("nothing_overlaps", _with(1.0), _inputs(1, 2, 60)),
        Case("thin", _with(0.03125), _inputs(1, 1, 120, across=0.01)),
        Case("more_than_a_word", _with(0.125), _inputs(1, 2, 257)),
        Case("more_than_a_stripe", _with(0.25), _inputs(1, 2, 1500, spread=20.0, ties=700)),
        Case("many_classes", _with(0.25, 0.625, most=20), _inputs(2, 150, 300, spread=6.0)),
        Case("strange", _with(0.375, -1.0), _strange),
        Case("strange_at_zero", _with(0.0, -1.0), _strange),
        Case("no_boxes", _with(), _inputs(2, 3, 0)),
        Case("no_images", _with(), _inputs(0, 3, 5)),
        Case("two_thousand", _with(0.3125), _clusters(2000, 12), large=True),
        Case("ten_thousand", _with(0.3125), _clusters(10_000, 16), large=True),
        Case("crowded", _with(0.125), _inputs(1, 1, 2000, spread=8.0), large=True),
        Case("detector", _with(0.125, 0.9375), _inputs(2, 15, 5000, spread=60.0), large=True),
    ),
    workspace=True,
)

"""Non-maximum suppression of rotated boxes. The oracle counts the points of a fine grid that two boxes share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rotated_boxes import overlap
from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

SELECTION = "RotatedBoxSelection"
MMDEPLOY = {"iou_threshold": 0.25, "score_threshold": 0.125}


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(5)
    middle, size = rng.uniform(0, 4, (2, 14, 2)), rng.uniform(0.5, 3, (2, 14, 2))
    boxes = np.concatenate([middle, size, rng.uniform(-3, 3, (2, 14, 1))], axis=2)
    scores = rng.permuted(np.arange(2 * 3 * 14) / 84).reshape(2, 3, 14)
    return {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32)}


def _selected(turn: float = 1.0, most: int = 1000) -> Any:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        rows = []
        for image, boxes in enumerate(inputs["boxes"].astype(np.float64)):
            for class_, scores in enumerate(inputs["scores"][image]):
                taken: list[int] = []
                for box in np.argsort(-scores):
                    rivals = (overlap(boxes[box], boxes[other], turn) > 0.25 for other in taken)
                    if scores[box] > 0.125 and not any(rivals):
                        taken.append(int(box))
                rows += [(image, class_, box) for box in taken[:most]]
        return np.array(rows), np.array(len(rows))

    return oracle


def _in_degrees() -> dict[str, np.ndarray | None]:
    """One image and class; angles in degrees, from y towards x."""
    rng = np.random.default_rng(8)
    middle, size = rng.uniform(0, 4, (16, 2)), rng.uniform(0.5, 3, (16, 2))
    boxes = np.concatenate([middle, size, rng.uniform(-170, 170, (16, 1))], axis=1)
    scores = rng.permuted(np.arange(16) - 4.0)
    return {
        "boxes": boxes.astype(np.float32),
        "scores": scores.astype(np.float32),
        "iou_threshold": np.array(0.25),
    }


def _kept_of_degrees(inputs: Arrays) -> np.ndarray:
    boxes = inputs["boxes"].astype(np.float64) * [1, 1, 1, 1, np.pi / 180]
    kept: list[int] = []
    for box in np.argsort(-inputs["scores"]):
        if all(overlap(boxes[box], boxes[other], -1.0) <= 0.25 for other in kept):
            kept.append(int(box))
    return np.array(kept)


def _rows(turn: float = 1.0) -> Any:
    return lambda inputs: _selected(turn)(inputs)[0]


EXAMPLES = (
    Example(SELECTION, "NMSRotated", "mmdeploy", MMDEPLOY, _inputs, _rows(), types=("N",)),
    Example(SELECTION, "NMSRotated", "mmcv", MMDEPLOY | {"clockwise": 0}, _inputs, _rows(-1.0),
            note="counter_clockwise", types=("N",)),
    Example(SELECTION, "nms_rotated", "detectron2", {}, _in_degrees, _kept_of_degrees,
            constants=frozenset({"iou_threshold"}), types=("N",)),
    Example(SELECTION, SELECTION, "trtsmith", MMDEPLOY | {"clockwise": 1, "most": 3}, _inputs, _selected(1.0, 3)),
)  # fmt: skip

SHAPES = {"boxes": (2, 7, 5), "scores": (2, 3, 7)}
FIELDS = MMDEPLOY | {"clockwise": 1, "most": 5}
INCONSISTENT = tuple(
    Inconsistent(SELECTION, SHAPES, {"boxes": shape}, message, FIELDS)
    for shape, message in (
        ((2, 7, 4), "boxes[2] = 4, but a rotated box has 5 numbers"),
        ((1, 7, 5), "boxes[0] = 1, not 2 = scores[0]"),
        ((2, 8, 5), "boxes[1] = 8, not 7 = scores[2]"),
    )
)

LARGEST = (
    Largest(
        SELECTION,
        FIELDS | {"most": 1},
        (("float32", (Largest.SIZE, 5, 5)), ("float32", (Largest.SIZE, 1, 5))),
    ),
)


HUGE = "it needs 69 GB of workspace for 2^31 scores"

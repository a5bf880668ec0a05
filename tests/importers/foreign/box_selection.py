"""Non-maximum suppression. The oracle computes the overlap of every pair, and goes through the boxes in order."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

SELECTION = "BoxSelection"


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(9)
    boxes = rng.uniform(0, 3, (2, 25, 4))
    boxes[..., 2:] += boxes[..., :2] + 0.1
    return {
        "boxes": boxes.astype(np.float32),
        "scores": rng.permuted(np.arange(2 * 3 * 25) / 150).reshape(2, 3, 25).astype(np.float32),
        "max_output_boxes_per_class": np.array([6]),
        "iou_threshold": np.array([0.2], np.float32),
        "score_threshold": np.array([0.1], np.float32),
    }


def _selected(inputs: Arrays) -> tuple[np.ndarray, ...]:
    rows = []
    for image, boxes in enumerate(inputs["boxes"].astype(np.float64)):
        sides = np.minimum(boxes[:, None, 2:], boxes[:, 2:]) - np.maximum(boxes[:, None, :2], boxes[:, :2])
        common = np.maximum(sides, 0).prod(axis=2)
        area = np.diag(common)
        overlap = common / (area[:, None] + area - common) > inputs["iou_threshold"]
        for class_, scores in enumerate(inputs["scores"][image]):
            taken: list[int] = []
            for box in np.argsort(-scores):
                if scores[box] > inputs["score_threshold"] and not overlap[box, taken].any():
                    taken.append(int(box))
            rows += [(image, class_, box) for box in taken[: int(inputs["max_output_boxes_per_class"][0])]]
    return np.array(rows), np.array(len(rows))


def _rows() -> dict[str, np.ndarray | None]:
    inputs = _inputs()
    return {"boxes": inputs["boxes"][0], "scores": inputs["scores"][0, 0]}


def _rows_and_threshold() -> dict[str, np.ndarray | None]:
    return _rows() | {"iou_threshold": np.array(0.2)}


def _pixels() -> dict[str, np.ndarray | None]:
    """First and last pixels of boxes, as whole numbers."""
    rng = np.random.default_rng(11)
    low = rng.integers(0, 12, (30, 2))
    boxes = np.concatenate([low, low + rng.integers(0, 6, (30, 2))], axis=1)
    return {"boxes": boxes.astype(np.float32), "scores": rng.permuted(np.arange(30.0)).astype(np.float32)}


def _kept_of_pixels(inputs: Arrays) -> np.ndarray:
    """Counts pixels."""
    kept: list[int] = []
    marks = [
        {(x, y) for x in range(int(a), int(c) + 1) for y in range(int(b), int(d) + 1)}
        for a, b, c, d in inputs["boxes"]
    ]
    for box in np.argsort(-inputs["scores"]):
        if all(len(marks[box] & marks[k]) <= 0.2 * len(marks[box] | marks[k]) for k in kept):
            kept.append(int(box))
    return np.array(kept)


def _kept(inputs: Arrays) -> np.ndarray:
    """As torchvision and mmcv document it: no limit, no threshold of scores."""
    limits = {"iou_threshold": 0.2, "score_threshold": -1.0, "max_output_boxes_per_class": np.array([1000])}
    rows, _ = _selected({"boxes": inputs["boxes"][None], "scores": inputs["scores"][None, None]} | limits)
    return rows[:, 2]


MMCV = {"iou_threshold": 0.2, "offset": 0}

EXAMPLES = (
    Example(SELECTION, "nms", "torchvision", {}, _rows_and_threshold, _kept,
            constants=frozenset({"iou_threshold"}), types=("N",)),
    Example(SELECTION, "NonMaxSuppression", "mmcv", MMCV, _rows, _kept, types=("N",)),
    Example(SELECTION, "NonMaxSuppression", "mmcv", MMCV | {"offset": 1}, _pixels, _kept_of_pixels, note="pixels",
            types=("N",)),
    Example(SELECTION, SELECTION, "trtsmith", {"center_point_box": 0, "most": 100}, _inputs, _selected),
)  # fmt: skip

SHAPES = {
    "boxes": (2, 7, 4),
    "scores": (2, 3, 7),
    "max_output_boxes_per_class": (1,),
    "iou_threshold": (1,),
}
FIELDS = {"center_point_box": 0, "most": 5}
INCONSISTENT = tuple(
    Inconsistent(SELECTION, SHAPES, {name: shape}, message, FIELDS)
    for name, shape, message in (
        ("boxes", (2, 7, 5), "boxes[2] = 5"),
        ("boxes", (1, 7, 4), "boxes[0] = 1, not 2 = scores[0]"),
        ("boxes", (2, 8, 4), "boxes[1] = 8, not 7 = scores[2]"),
        ("iou_threshold", (2,), "iou_threshold has 2 elements, not 1"),
    )
)

_SCORES = (Largest.SIZE, 1, 5)
LARGEST = (
    Largest(
        SELECTION,
        {"center_point_box": 0, "most": 1},
        (("float32", (Largest.SIZE, 5, 4)), ("float32", _SCORES), ("int64", (1,)), ("float32", (1,))),
    ),
)


HUGE = "it needs 69 GB of workspace for 2^31 scores"

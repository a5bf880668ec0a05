"""Soft non-maximum suppression, as in mmcv. The oracle computes the overlap of every pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

SELECTION = "SoftBoxSelection"
MMCV = {"iou_threshold": 0.3125, "sigma": 0.5, "min_score": 0.0625, "method": 1, "offset": 0}


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(9)
    low = rng.uniform(0, 12, (30, 2))
    boxes = np.concatenate([low, low + rng.uniform(2, 9, (30, 2))], axis=1)
    return {
        "boxes": boxes.astype(np.float32),
        "scores": (rng.permuted(np.arange(1, 31)) / 32).astype(np.float32),
    }


def _soft(**changed: Any) -> Any:
    attributes = MMCV | changed

    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        boxes, scores = inputs["boxes"].astype(np.float64), inputs["scores"].astype(np.float64)
        low, high = boxes[:, None, :2], boxes[:, None, 2:] + attributes["offset"]
        sides = np.minimum(high, high.transpose(1, 0, 2)) - np.maximum(low, low.transpose(1, 0, 2))
        common = np.maximum(sides, 0).prod(axis=2)
        area = np.diag(common)
        overlap = common / (area[:, None] + area - common)
        over = overlap >= attributes["iou_threshold"]
        weight = {
            0: np.where(over, 0, 1),
            1: np.where(over, 1 - overlap, 1),
            2: np.exp(-(overlap**2) / attributes["sigma"]),
        }[attributes["method"]]
        open_, rows, inds = np.ones(len(scores), bool), [], []
        while open_.any():
            best = int(np.where(open_, scores, -np.inf).argmax())
            inds.append(best)
            rows.append([*boxes[best], scores[best]])
            open_[best] = False
            scores = scores * weight[best]
            open_ &= scores >= attributes["min_score"]
        return np.array(rows), np.array(inds), np.array(len(inds))

    return oracle


def _example(note: str, **changed: Any) -> Example:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        return _soft(**changed)(inputs)[:2]

    attributes = MMCV | changed
    return Example(
        SELECTION, "SoftNonMaxSuppression", "mmcv", attributes, _inputs, oracle, note=note, types=("T", "N")
    )


EXAMPLES = (
    _example("linear"),
    _example("naive", method=0),
    _example("gaussian", method=2, min_score=0.015625),
    _example("pixels", offset=1),
    Example(SELECTION, SELECTION, "trtsmith", MMCV, _inputs, _soft()),
)

SHAPES = {"boxes": (7, 4), "scores": (7,)}
INCONSISTENT = tuple(
    Inconsistent(SELECTION, SHAPES, {"boxes": shape}, message, MMCV)
    for shape, message in (
        ((7, 5), "boxes[1] = 5, but a box has 4 numbers"),
        ((8, 4), "boxes[0] = 8, not 7 = scores[0]"),
    )
)

LARGEST = (Largest(SELECTION, MMCV, (("float32", (Largest.SIZE, 4)), ("float32", (Largest.SIZE,)))),)


HUGE = "boxes are taken one after the other, each with a look at all: 2^31 would take years"

"""Shared by the examples of selecting detections: boxes and scores, and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rotated_boxes import overlap

POLYGONS = -1


def overlap_of(a: np.ndarray, b: np.ndarray, extra: int) -> float:
    if len(a) == 5:
        return prob_iou(a, b) if extra == 0 else overlap(a, b)
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + extra
    common = np.maximum(sides, 0).prod()
    both = (a[2:] - a[:2] + extra).prod() + (b[2:] - b[:2] + extra).prod()
    return float(common / (both - common))


def prob_iou(a: np.ndarray, b: np.ndarray) -> float:
    """As TensorRT-YOLO computes it, by matrices; its boxes are (y, x, y, x, angle)."""

    def matrix(box: np.ndarray) -> np.ndarray:
        turn = np.array([[np.cos(box[4]), -np.sin(box[4])], [np.sin(box[4]), np.cos(box[4])]])
        height, width = box[2] - box[0], box[3] - box[1]
        return np.asarray(turn @ np.diag([width**2 / 12, height**2 / 12]) @ turn.T)

    one, other = matrix(a), matrix(b)
    both = one + other
    determinant = np.linalg.det(both)
    y, x = (a[:2] + a[2:4] - b[:2] - b[2:4]) / 2
    moved = (both[0, 0] * y * y + both[1, 1] * x * x + both[0, 1] * x * y) / (4 * determinant)
    turned = np.log(determinant / (4 * np.linalg.det(one) * np.linalg.det(other))) / (2 * determinant)
    return float(1 - np.sqrt(1 - np.exp(-np.clip(moved + turned, 1e-7, 100))))


def selected(
    boxes: np.ndarray, scores: np.ndarray, most: int, score: float, limit: float, **options: Any
) -> list[list[tuple[int, int]]]:
    """(box, class) of every image, the best first, of corners [N, B, 1 or C, 4 or 5] and scores [N, B, C].

    With 5 numbers the last is an angle, and boxes overlap by ProbIoU; by polygons where extra is POLYGONS. No value is
    near a threshold, and no scores are equal.
    options: extra is added to sides; apart, a class is a world of its own; background is left out; topk of each class take
    part.
    """
    extra, found = options.get("extra", 0), []
    for image, values in enumerate(scores.astype(np.float64)):
        corners = np.broadcast_to(boxes[image].astype(np.float64), (*values.shape, boxes.shape[-1]))
        allowed = values > score
        if "background" in options:
            allowed[:, options["background"]] = False
        if options.get("topk", 0) > 0:
            allowed &= np.argsort(np.argsort(-values, axis=0), axis=0) < options["topk"]
        kept: list[tuple[int, int]] = []
        for flat in np.argsort(-values, axis=None):
            box, class_ = (int(index) for index in np.unravel_index(flat, values.shape))
            if not allowed[box, class_] or len(kept) == most:
                continue
            for other in kept:
                if not options.get("apart", True) or other[1] == class_:
                    share = overlap_of(corners[box, class_], corners[other], extra)
                    if share > limit:
                        break
            else:
                kept.append((box, class_))
        found.append(kept)
    return found


def rows(
    kept: list[list[tuple[int, int]]], boxes: np.ndarray, scores: np.ndarray, most: int, filler: int
) -> tuple[np.ndarray, ...]:
    """Number, boxes, scores, classes and indices in rows of `most`."""
    batch = len(kept)
    tables = [
        np.zeros((batch, most, boxes.shape[-1])),
        np.zeros((batch, most)),
        np.full((batch, most), filler),
    ]
    tables.append(tables[2].copy())
    boxes = np.broadcast_to(boxes, (*scores.shape, boxes.shape[-1]))
    for image, pairs in enumerate(kept):
        for row, (box, class_) in enumerate(pairs):
            tables[0][image, row] = boxes[image, box, class_]
            tables[1][image, row] = scores[image, box, class_]
            tables[2][image, row], tables[3][image, row] = class_, box
    return (np.array([[len(pairs)] for pairs in kept]), *tables)


def made(groups: int = 1, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Corners [2, 20, groups, 4] on a grid of quarters, and scores [2, 20, 3] apart from each other, 0 to 1."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 9, (2, 20, groups, 2)) / 4
    corners = np.concatenate([low, low + rng.integers(2, 7, (2, 20, groups, 2)) / 4], axis=-1)
    scores = rng.permuted(np.arange(2 * 20 * 3)).reshape(2, 20, 3) / 128
    return corners.astype(np.float32), scores.astype(np.float32)

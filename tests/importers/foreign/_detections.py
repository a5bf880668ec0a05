"""What the examples of the selection of detections share: boxes and scores, and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np


def selected(
    boxes: np.ndarray, scores: np.ndarray, most: int, score: float, overlap: float, **options: Any
) -> list[list[tuple[int, int]]]:
    """(box, class) of every image, the best first, of corners [N, B, 1 or C, 4] and scores [N, B, C].

    No value is near a threshold, and no scores are equal. options: extra is added to sides; apart, a class is a world of its
    own; background is left out; topk of each class take part.
    """
    extra, found = options.get("extra", 0), []
    for image, values in enumerate(scores.astype(np.float64)):
        corners = np.broadcast_to(boxes[image].astype(np.float64), (*values.shape, 4))
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
                a, b = corners[box, class_], corners[other]
                sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + extra
                common = np.maximum(sides, 0).prod()
                both = (a[2:] - a[:2] + extra).prod() + (b[2:] - b[:2] + extra).prod()
                if common / (both - common) > overlap and (
                    other[1] == class_ or not options.get("apart", True)
                ):
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
    tables = [np.zeros((batch, most, 4)), np.zeros((batch, most)), np.full((batch, most), filler)]
    tables.append(tables[2].copy())
    boxes = np.broadcast_to(boxes, (*scores.shape, 4))
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

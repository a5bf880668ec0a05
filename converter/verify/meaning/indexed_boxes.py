"""Writes the indices that a suppression chose as the detections that they stand for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trtsmith.converter.verify.meaning.matched_rows import corners
from trtsmith.converter.verify.meaning.selections import Selection
from trtsmith.importers.opdef import Arrays

_INDICES = 3
"""Numbers of a row: image, class, box."""


def indexed_outputs(found: Mapping[str, Selection], plain: Arrays) -> dict[str, Selection]:
    """Outputs that are rows of (image, class, box), where candidates and their scores are known."""
    return {
        name: one
        for name, one in found.items()
        if one.indices
        and name in plain
        and plain[name].shape[1:] == (_INDICES,)
        and one.boxes in plain
        and one.scores in plain
        and _fits(plain[one.boxes], plain[one.scores])
    }


def with_detections(arrays: Arrays, indexed: Mapping[str, Selection], candidates: Arrays) -> Arrays:
    """Replaces each of these outputs by rows of corners, score and class, [rows, 6] in float64; classes of images count on.

    candidates: boxes and scores, which a run of the engine does not give: an index means the same candidate in every run.
    """
    return {**arrays} | {
        name: _detections(arrays[name], one, candidates)
        for name, one in indexed.items()
        if name in arrays and arrays[name].dtype.kind == "i" and arrays[name].shape[1:] == (_INDICES,)
    }


def _fits(boxes: np.ndarray, scores: np.ndarray) -> bool:
    """Whether they are [images, boxes, 4] and probabilities [images, classes, boxes]."""
    known = boxes.ndim == scores.ndim == 3 and boxes.shape == (scores.shape[0], scores.shape[2], 4)
    return known and bool(((scores >= 0) & (scores <= 1)).all())


def _detections(rows: np.ndarray, one: Selection, candidates: Arrays) -> np.ndarray:
    boxes, scores = candidates[one.boxes].astype(np.float64), candidates[one.scores].astype(np.float64)
    inside = ((rows >= 0) & (rows < np.array(scores.shape))).all(axis=1, keepdims=True)
    image, label, box = np.where(inside, rows, 0).T
    found = np.concatenate(
        [
            corners(boxes[image, box], one.centres),
            scores[image, label, box][:, None],
            (image * scores.shape[1] + label)[:, None],
        ],
        axis=1,
    )
    # rows of -1 fill up; any other index that no candidate has is a detection that the reference lacks
    other = np.where((rows == -1).all(axis=1, keepdims=True), 0.0, 1.0)
    return np.where(inside, found, other)

"""Lists sizes at which networks select detections: a detector of 640 x 640 pixels and 80 classes, as YOLO has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Fields, Shapes, Work
from trtsmith.importers.ops.selection._detection_selection_cases import with_fields

BATCH, BOXES, CLASSES, PIXELS = 8, 8400, 80, 640
OBJECTS, COPIES = 30, 10
"""Objects of an image, and boxes of each, which are near it and share its class."""


def work(_fields: Fields, shapes: Shapes) -> Work:
    """Every score is compared with the threshold. How many boxes are compared depends on values: they are left out."""
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

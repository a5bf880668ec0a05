"""Multi-scale deformable attention from offsets and logits, as other tools write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._attention import HEADS, huge_attention
from tests.importers.foreign.model import SAMPLED, Arrays, Example, Huge, HugeCase, Inconsistent
from tests.importers.oracles import deformable_attention

MSDA_OFFSETS = "MultiscaleDeformableAttentionFromOffsets"
LEVELS = np.array([[5, 7], [3, 2]], np.int64)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def bevformer_inputs(references: int) -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(2)
    return {
        "value": rng.normal(size=(2, 41, 3, 8)).astype(np.float32),
        "value_spatial_shapes": LEVELS.astype(np.int32),
        "reference_points": rng.uniform(size=(2, 6, 1, 2 * references)).astype(np.float32),
        "sampling_offsets": rng.normal(scale=2, size=(2, 6, 3, 2 * 4 * 2)).astype(np.float32),
        "attention_weights": rng.normal(size=(2, 6, 3, 2 * 4)).astype(np.float32),
    }


def bevformer(inputs: Arrays) -> np.ndarray:
    """Query by query, as the plugin's kernel documents it: softmax over all samples, point p uses reference p mod G."""
    shapes = inputs["value_spatial_shapes"]
    references = inputs["reference_points"].astype(np.float64)
    offsets = inputs["sampling_offsets"].astype(np.float64)
    logits = inputs["attention_weights"].astype(np.float64)
    batch, queries, heads, samples = logits.shape
    points, count = samples // len(shapes), references.shape[3] // 2
    locations = np.zeros((batch, queries, heads, len(shapes), points, 2))
    for level, (height, width) in enumerate(shapes.tolist()):
        for p in range(points):
            first, reference = 2 * (level * points + p), 2 * (p % count)
            for axis, size in ((0, width), (1, height)):
                point = references[:, :, 0, reference + axis, None]
                locations[:, :, :, level, p, axis] = point + offsets[:, :, :, first + axis] / size
    weights = softmax(logits).reshape(batch, queries, heads, len(shapes), points)
    starts = np.array([0, *np.cumsum(shapes[:, 0] * shapes[:, 1])[:-1]])
    return deformable_attention(inputs["value"], shapes, starts, locations, weights)


def own_inputs(boxes: bool) -> dict[str, np.ndarray | None]:
    """Levels lie in the other order, with a gap; points differ between levels, boxes are the same for both batches."""
    rng = np.random.default_rng(3)
    points = rng.uniform(-0.1, 1.1, size=(1, 6, 1, 2, 4) if boxes else (2, 6, 2, 1, 2))
    return {
        "value": rng.normal(size=(2, 45, 3, 8)).astype(np.float32),
        "spatial_shapes": LEVELS,
        "level_start_index": np.array([8, 1], np.int64),
        "reference_points": points.astype(np.float32),
        "sampling_offsets": rng.normal(scale=2, size=(2, 6, 3, 2, 4, 2)).astype(np.float32),
        "attention_logits": rng.normal(size=(2, 6, 3, 2, 4)).astype(np.float32),
    }


def own(inputs: Arrays) -> np.ndarray:
    """Point by point: Deformable DETR, section 4 and appendix A.4."""
    centres = inputs["reference_points"].astype(np.float64)
    offsets = inputs["sampling_offsets"].astype(np.float64)
    logits = inputs["attention_logits"].astype(np.float64)
    batch, queries, heads, levels, points, _ = offsets.shape
    locations = np.zeros(offsets.shape)
    for n in range(batch):
        for level, (height, width) in enumerate(inputs["spatial_shapes"].tolist()):
            for p in range(points):
                given = centres[n % centres.shape[0], :, level % centres.shape[2], p % centres.shape[3], None]
                away = offsets[n, :, :, level, p]
                if given.shape[-1] == 2:
                    locations[n, :, :, level, p] = given + away / (width, height)
                else:
                    locations[n, :, :, level, p] = given[..., :2] + away * given[..., 2:] / (2 * points)
    weights = softmax(logits.reshape(batch, queries, heads, levels * points)).reshape(logits.shape)
    indexed = (inputs[name] for name in ("value", "spatial_shapes", "level_start_index"))
    return deformable_attention(*indexed, locations, weights).reshape(batch, queries, heads * 8)


EXAMPLES = (
    Example(
        MSDA_OFFSETS, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(2), bevformer, note="two_references"
    ),
    Example(MSDA_OFFSETS, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(1), bevformer),
    Example(MSDA_OFFSETS, "MultiScaleDeformableAttnTRT2", "", {}, lambda: bevformer_inputs(4), bevformer),
    Example(MSDA_OFFSETS, MSDA_OFFSETS, "trtsmith", {}, lambda: own_inputs(False), own),
    Example(MSDA_OFFSETS, MSDA_OFFSETS, "trtsmith", {}, lambda: own_inputs(True), own, note="boxes"),
)  # fmt: skip

SHAPES = {
    "value": (2, 30, 4, 8),
    "spatial_shapes": (3, 2),
    "level_start_index": (3,),
    "reference_points": (2, 5, 3, 2, 4),
    "sampling_offsets": (2, 5, 4, 3, 6, 2),
    "attention_logits": (2, 5, 4, 3, 6),
}

INCONSISTENT = tuple(
    Inconsistent(MSDA_OFFSETS, SHAPES, change, message)
    for change, message in (
        ({"value": (1, 30, 4, 8)}, "batch differ: value[0] = 1"),
        ({"value": (2, 30, 5, 8)}, "heads differ: value[2] = 5"),
        ({"attention_logits": (2, 6, 4, 3, 6)}, "queries differ"),
        ({"reference_points": (2, 6, 3, 2, 4)}, "queries differ: reference_points[1] = 6"),
        ({"reference_points": (3, 5, 3, 2, 4)}, "reference_points[0] = 3, not 1"),
        ({"reference_points": (2, 5, 2, 2, 4)}, "reference_points[2] = 2, not 1"),
        ({"reference_points": (2, 5, 3, 4, 4)}, "points = 6 are no multiple of reference_points[3] = 4"),
        ({"reference_points": (2, 5, 3, 2, 3)}, "reference_points[4] = 3, not 2"),
        ({"level_start_index": (2,)}, "levels differ"),
        ({"attention_logits": (2, 5, 4, 3, 7)}, "points differ"),
        ({"spatial_shapes": (3, 3)}, "spatial_shapes[1] = 3, not 2"),
        ({"sampling_offsets": (2, 5, 4, 3, 6, 3)}, "sampling_offsets[5] = 3"),
    )
)


def huge(side: int, device: str) -> Huge:
    """The weight of one sample is 1, whatever its logit."""
    import torch

    rows = side * side
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    references = torch.rand(1, rows, 1, 1, 2, device=device)
    references[:, -SAMPLED:] = 1 - references[:, -SAMPLED:] * 2**-8
    offsets = torch.randn(1, rows, HEADS, 1, 1, 2, **half)

    def pixel(first: int, last: int) -> Any:
        reference = references[0, first:last, 0].double()
        return reference * side - 0.5 + offsets[0, first:last, :, 0, 0].double()

    samples = {
        "reference_points": references,
        "sampling_offsets": offsets,
        "attention_logits": torch.randn(1, rows, HEADS, 1, 1, **half),
    }
    return huge_attention(side, device, samples, pixel, torch.ones(rows, HEADS, device=device))


HUGE = HugeCase(huge, size=2900, small=20)

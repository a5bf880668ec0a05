"""Multi-scale deformable attention, as other tools write it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent
from tests.importers.oracles import deformable_attention

MSDA = "MultiscaleDeformableAttention"
LEVELS = np.array([[5, 7], [3, 2]], np.int64)


def attention_inputs() -> dict[str, np.ndarray | None]:
    """Levels lie in the other order, with a gap: level_start_index is to be honoured."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=(2, 6, 3, 2, 4))
    return {
        "value": rng.normal(size=(2, 45, 3, 8)).astype(np.float32),
        "spatial_shapes": LEVELS,
        "level_start_index": np.array([8, 1], np.int64),
        "sampling_locations": rng.uniform(-0.2, 1.2, size=(2, 6, 3, 2, 4, 2)).astype(np.float32),
        "attention_weights": (weights / weights.sum((-1, -2), keepdims=True)).astype(np.float32),
    }


def attention_flat(inputs: Arrays) -> np.ndarray:
    return deformable_attention(**inputs).reshape(2, 6, 24)


def attention_heads(inputs: Arrays) -> np.ndarray:
    return deformable_attention(**inputs)


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
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).reshape(batch, queries, heads, len(shapes), points)
    starts = np.array([0, *np.cumsum(shapes[:, 0] * shapes[:, 1])[:-1]])
    return deformable_attention(inputs["value"], shapes, starts, locations, weights)


EXAMPLES = (
    Example(MSDA, "MMCVMultiScaleDeformableAttention", "mmcv", {"im2col_step": 64}, attention_inputs, attention_flat),
    Example(MSDA, "MultiscaleDeformableAttnPlugin_TRT", "trt", {}, attention_inputs, attention_heads),
    Example(MSDA, "MultiScaleDeformableAttentionPlugin", "custom_op", {"iLayer": 1}, attention_inputs, attention_flat),
    Example(MSDA, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(2), bevformer, note="two_references"),
    Example(MSDA, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(1), bevformer),
    Example(MSDA, "MultiScaleDeformableAttnTRT2", "", {}, lambda: bevformer_inputs(4), bevformer),
    Example(MSDA, MSDA, "trtsmith", {}, attention_inputs, attention_flat),
)  # fmt: skip

SHAPES = {
    "value": (2, 30, 4, 8),
    "spatial_shapes": (3, 2),
    "level_start_index": (3,),
    "sampling_locations": (2, 5, 4, 3, 6, 2),
    "attention_weights": (2, 5, 4, 3, 6),
}

INCONSISTENT = tuple(
    Inconsistent(MSDA, SHAPES, change, message)
    for change, message in (
        ({"value": (1, 30, 4, 8)}, "batch differ: value[0] = 1"),
        ({"value": (2, 30, 5, 8)}, "heads differ: value[2] = 5"),
        ({"attention_weights": (2, 6, 4, 3, 6)}, "queries differ"),
        ({"level_start_index": (2,)}, "levels differ"),
        ({"attention_weights": (2, 5, 4, 3, 7)}, "points differ"),
        ({"spatial_shapes": (3, 3)}, "spatial_shapes[1] = 3, not 2"),
        ({"sampling_locations": (2, 5, 4, 3, 6, 3)}, "sampling_locations[5] = 3"),
    )
)

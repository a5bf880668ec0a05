"""Multi-scale deformable attention, as other tools write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._attention import HEADS, huge_attention
from tests.importers.foreign.model import SAMPLED, Arrays, Example, Huge, HugeCase, Inconsistent
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


EXAMPLES = (
    Example(MSDA, "MMCVMultiScaleDeformableAttention", "mmcv", {"im2col_step": 64}, attention_inputs, attention_flat),
    Example(MSDA, "MultiscaleDeformableAttnPlugin_TRT", "trt", {}, attention_inputs, attention_heads),
    Example(MSDA, "MultiScaleDeformableAttentionPlugin", "custom_op", {"iLayer": 1}, attention_inputs, attention_flat),
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


def huge(side: int, device: str) -> Huge:
    import torch

    shape = (1, side * side, HEADS, 1, 1)
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    locations = torch.rand(*shape, 2, **half)
    locations[:, -SAMPLED:] = 1 - locations[:, -SAMPLED:] * 2**-8
    weights = torch.rand(*shape, **half)

    def pixel(first: int, last: int) -> Any:
        return locations[0, first:last, :, 0, 0].double() * side - 0.5

    samples = {"sampling_locations": locations, "attention_weights": weights}
    return huge_attention(side, device, samples, pixel, weights[0, ..., 0, 0])


HUGE = HugeCase(huge, size=2900, small=20)

"""Nodes as the wild writes them: one or more examples of every spelling, each with its oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.importers.oracles import deformable_attention, deformable_convolution

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """A node with its inputs in order (None: not connected) and what it must compute, in float64.

    op: the operator that it means; version: of its domain; constants: inputs that are attributes fed as constants.
    """

    op: str
    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    inputs: Callable[[], dict[str, np.ndarray | None]]
    oracle: Callable[[Arrays], np.ndarray]
    version: int = 1
    constants: frozenset[str] = field(default_factory=frozenset)
    note: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.op, self.op_type, self.note) if part)


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


GEOMETRY: dict[str, Any] = {"stride": (2, 1), "dilation": (1, 2), "groups": 2, "offset_groups": 3}
"""x [2, 6, 8, 9], kernel 3x2, padding 1 above, 1 below, 2 at either side: output 4 x 11."""

SQUARE: dict[str, Any] = {"stride": (2, 2), "dilation": (1, 1), "groups": 2, "offset_groups": 3}


def convolution_inputs(order: str, height: int = 4, width: int = 11, kernel: tuple[int, int] = (3, 2)) -> Any:
    """A maker of inputs in the order of a word list; a name in brackets is left unconnected."""

    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(3)
        taps = 3 * kernel[0] * kernel[1]
        arrays = {
            "x": rng.normal(size=(2, 6, 8, 9)),
            "offset": rng.normal(scale=2, size=(2, 2 * taps, height, width)),
            "mask": rng.uniform(size=(2, taps, height, width)),
            "weight": rng.normal(size=(4, 3, *kernel)),
            "bias": rng.normal(size=4),
        }
        return {
            name.strip("()"): None if name.startswith("(") else arrays[name].astype(np.float32)
            for name in order.split()
        }

    return make


def convolution(
    top_left: tuple[int, int] = (1, 2), geometry: Mapping[str, Any] = GEOMETRY
) -> Callable[[Arrays], np.ndarray]:
    return lambda inputs: deformable_convolution(**inputs, top_left=top_left, **geometry)


def packed_inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(4)
    return {
        "x": rng.normal(size=(2, 5, 6, 7)).astype(np.float32),
        "packed": rng.normal(size=(2, 27, 6, 7)).astype(np.float32),
        "weight": rng.normal(size=(4, 5, 3, 3)).astype(np.float32),
        "bias": rng.normal(size=4).astype(np.float32),
    }


def packed(inputs: Arrays) -> np.ndarray:
    both = inputs["packed"].astype(np.float64)
    mask = 1 / (1 + np.exp(-both[:, 18:]))
    return deformable_convolution(
        inputs["x"], both[:, :18], inputs["weight"], mask, inputs["bias"], top_left=(1, 1)
    )


_NUMBERS = {
    "stride_h": 2, "stride_w": 1, "pad_h": 1, "pad_w": 2, "dilation_h": 1, "dilation_w": 2, "groups": 2,
    "offset_groups": 3,
}  # fmt: skip


def torchvision_inputs(use_mask: bool) -> dict[str, np.ndarray | None]:
    """As the exporter falls through: every argument an input, a mask of [N, 1] where there is none."""
    inputs = dict(convolution_inputs("x weight offset mask bias")())
    if not use_mask:
        inputs["mask"] = np.zeros((2, 1), np.float32)
    numbers = {name: np.array(value, np.int64) for name, value in _NUMBERS.items()}
    return {**inputs, **numbers, "use_mask": np.array(use_mask)}


def torchvision(inputs: Arrays) -> np.ndarray:
    tensors = {n: a for n, a in inputs.items() if n in ("x", "weight", "offset", "mask", "bias")}
    if tensors["mask"].shape == (2, 1):
        del tensors["mask"]
    return deformable_convolution(**tensors, top_left=(1, 2), **GEOMETRY)


MSDA, DCN2, DCN1 = "MultiscaleDeformableAttention", "ModulatedDeformableConvolution", "DeformableConvolution"
_MMCV = {"stride": [2, 1], "padding": [1, 2], "dilation": [1, 2], "groups": 2, "deform_groups": 3}
_NVIDIA = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "group": 2, "deformable_group": 3}
_NVIDIA_INPUTS = convolution_inputs("x offset mask weight bias", 4, 5, (3, 3))
_ONNX = {"strides": [2, 1], "pads": [1, 2, 1, 2], "dilations": [1, 2], "group": 2, "offset_group": 3}
_OWN = {"stride": [2, 1], "padding": [1, 2, 1, 2], "dilation": [1, 2], "groups": 2, "offset_groups": 3}
_SKEWED = {**_ONNX, "pads": [0, 3, 2, 1], "kernel_shape": [3, 2]}
_PACKED = {"dilation": [1, 1], "padding": [1, 1], "stride": [1, 1], "deformable_groups": 1, "name": "DCNv2"}
_ARGUMENTS = frozenset((*_NUMBERS, "use_mask"))

EXAMPLES: tuple[Example, ...] = (
    Example(MSDA, "MMCVMultiScaleDeformableAttention", "mmcv", {"im2col_step": 64}, attention_inputs, attention_flat),
    Example(MSDA, "MultiscaleDeformableAttnPlugin_TRT", "trt", {}, attention_inputs, attention_heads),
    Example(MSDA, "MultiScaleDeformableAttentionPlugin", "custom_op", {"iLayer": 1}, attention_inputs, attention_flat),
    Example(MSDA, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(2), bevformer, note="two_references"),
    Example(MSDA, "MultiScaleDeformableAttnTRT", "", {}, lambda: bevformer_inputs(1), bevformer),
    Example(MSDA, "MultiScaleDeformableAttnTRT2", "", {}, lambda: bevformer_inputs(4), bevformer),
    Example(MSDA, MSDA, "trtsmith", {}, attention_inputs, attention_flat),
    Example(
        DCN2, "MMCVModulatedDeformConv2d", "mmcv", _MMCV, convolution_inputs("x offset mask weight bias"), convolution()
    ),
    Example(
        DCN2, "MMCVModulatedDeformConv2d", "mmdeploy", _MMCV, convolution_inputs("x offset mask weight"), convolution(),
        note="no_bias",
    ),
    Example(DCN2, "ModulatedDeformConv2d", "nvidia", _NVIDIA, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(DCN2, "CustomModulatedDeformConv2d", "", _NVIDIA, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(
        DCN2, "DeformConv", "", _ONNX, convolution_inputs("x weight offset bias mask"), convolution(), version=19
    ),
    Example(
        DCN2, "DeformConv", "", _SKEWED, convolution_inputs("x weight offset (bias) mask"), convolution((0, 3)),
        version=22, note="22_no_bias_asymmetric",
    ),
    Example(
        DCN2, "deform_conv2d", "torchvision", {}, lambda: torchvision_inputs(True), torchvision, constants=_ARGUMENTS
    ),
    Example(
        DCN2, "deform_conv2d", "torchvision", {**_NUMBERS, "use_mask": 1},
        convolution_inputs("x weight offset mask bias"), convolution(), note="attributes",
    ),
    Example(DCN2, "DCNv2_TRT", "", _PACKED, packed_inputs, packed),
    Example(
        DCN2, "ModulatedDeformableConv2dTRT", "", _MMCV, convolution_inputs("x offset mask weight bias"), convolution()
    ),
    Example(
        DCN2, "ModulatedDeformableConv2dTRT2", "", _MMCV, convolution_inputs("x offset mask weight"), convolution()
    ),
    Example(DCN2, DCN2, "trtsmith", _OWN, convolution_inputs("x offset mask weight bias"), convolution()),
    Example(
        DCN1, "MMCVDeformConv2d", "mmcv", {**_MMCV, "bias": 0, "im2col_step": 32},
        convolution_inputs("x offset weight"), convolution(),
    ),
    Example(
        DCN1, "MMCVDeformConv2d", "mmdeploy", {**_MMCV, "padding": [1, 1, 2, 2]},
        convolution_inputs("x offset weight"), convolution(), note="mmdeploy",
    ),
    Example(DCN1, "DeformConv", "", _ONNX, convolution_inputs("x weight offset"), convolution(), version=19),
    Example(
        DCN1, "DeformConv", "", _ONNX, convolution_inputs("x weight offset bias (mask)"), convolution(), version=22,
        note="22_bias",
    ),
    Example(
        DCN1, "deform_conv2d", "torchvision", {}, lambda: torchvision_inputs(False), torchvision, constants=_ARGUMENTS
    ),
    Example(DCN1, DCN1, "trtsmith", _OWN, convolution_inputs("x offset weight bias"), convolution()),
)  # fmt: skip

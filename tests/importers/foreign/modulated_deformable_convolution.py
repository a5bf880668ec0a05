"""Modulated deformable convolution, as other tools write it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._deformable import (
    ARGUMENTS,
    FIELDS,
    MMCV,
    NUMBERS,
    ONNX,
    OWN,
    SHAPES,
    SQUARE,
    convolution,
    convolution_inputs,
    huge_convolution,
    inconsistent,
    torchvision,
    torchvision_inputs,
)
from tests.importers.foreign.model import Arrays, Example, Inconsistent
from tests.importers.oracles import deformable_convolution

DCN2 = "ModulatedDeformableConvolution"
_NVIDIA = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "group": 2, "deformable_group": 3}
_CENTERNET = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2, "deformable_group": 3}
_NVIDIA_INPUTS = convolution_inputs("x offset mask weight bias", 4, 5, (3, 3))
_SKEWED = {**ONNX, "pads": [0, 3, 2, 1], "kernel_shape": [3, 2]}
_PACKED = {"dilation": [1, 1], "padding": [1, 1], "stride": [1, 1], "deformable_groups": 1, "name": "DCNv2"}


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


EXAMPLES = (
    Example(
        DCN2, "MMCVModulatedDeformConv2d", "mmcv", MMCV, convolution_inputs("x offset mask weight bias"), convolution()
    ),
    Example(
        DCN2, "MMCVModulatedDeformConv2d", "mmdeploy", MMCV, convolution_inputs("x offset mask weight"), convolution(),
        note="no_bias",
    ),
    Example(DCN2, "ModulatedDeformConv2d", "nvidia", _NVIDIA, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(DCN2, "CustomModulatedDeformConv2d", "", _NVIDIA, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(
        DCN2, "DeformConv", "", ONNX, convolution_inputs("x weight offset bias mask"), convolution(), version=19
    ),
    Example(
        DCN2, "DeformConv", "", _SKEWED, convolution_inputs("x weight offset (bias) mask"), convolution((0, 3)),
        version=22, note="22_no_bias_asymmetric",
    ),
    Example(
        DCN2, "deform_conv2d", "torchvision", {}, lambda: torchvision_inputs(True), torchvision, constants=ARGUMENTS
    ),
    Example(
        DCN2, "deform_conv2d", "torchvision", {**NUMBERS, "use_mask": 1},
        convolution_inputs("x weight offset mask bias"), convolution(), note="attributes",
    ),
    Example(DCN2, "DCNv2", "", _CENTERNET, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(DCN2, "DCNv2Plugin", "", _CENTERNET | {"out_channel": 4}, _NVIDIA_INPUTS, convolution((1, 1), SQUARE)),
    Example(DCN2, "DCNv2_TRT", "", _PACKED, packed_inputs, packed),
    Example(DCN2, "DCNv2", "", {}, packed_inputs, packed, note="packed"),
    Example(
        DCN2, "ModulatedDeformableConv2dTRT", "", MMCV, convolution_inputs("x offset mask weight bias"), convolution()
    ),
    Example(
        DCN2, "ModulatedDeformableConv2dTRT2", "", MMCV, convolution_inputs("x offset mask weight"), convolution()
    ),
    Example(DCN2, DCN2, "trtsmith", OWN, convolution_inputs("x offset mask weight bias"), convolution()),
)  # fmt: skip

INCONSISTENT = (
    *inconsistent(DCN2, masked=True),
    Inconsistent(DCN2, SHAPES, {"mask": (2, 9, 5, 8)}, "mask[1] = 9, not 18", FIELDS),
    Inconsistent(DCN2, SHAPES, {"mask": (3, 18, 5, 8)}, "mask[0] = 3, not 2 = x[0]", FIELDS),
    Inconsistent(DCN2, SHAPES, {"mask": (2, 18, 4, 8)}, "mask[2] = 4, not 5", FIELDS),
)


HUGE = huge_convolution(masked=True)

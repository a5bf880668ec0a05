"""Deformable convolution without a mask, as other tools write it."""

from __future__ import annotations

from tests.importers.foreign._deformable import (
    ARGUMENTS,
    MMCV,
    ONNX,
    OWN,
    convolution,
    convolution_inputs,
    huge_convolution,
    inconsistent,
    torchvision,
    torchvision_inputs,
)
from tests.importers.foreign.model import Example

DCN1 = "DeformableConvolution"

EXAMPLES = (
    Example(
        DCN1, "MMCVDeformConv2d", "mmcv", {**MMCV, "bias": 0, "im2col_step": 32},
        convolution_inputs("x offset weight"), convolution(),
    ),
    Example(
        DCN1, "MMCVDeformConv2d", "mmdeploy", {**MMCV, "padding": [1, 1, 2, 2]},
        convolution_inputs("x offset weight"), convolution(), note="mmdeploy",
    ),
    Example(DCN1, "DeformConv", "", ONNX, convolution_inputs("x weight offset"), convolution(), version=19),
    Example(
        DCN1, "DeformConv", "", ONNX, convolution_inputs("x weight offset bias (mask)"), convolution(), version=22,
        note="22_bias",
    ),
    Example(
        DCN1, "deform_conv2d", "torchvision", {}, lambda: torchvision_inputs(False), torchvision, constants=ARGUMENTS
    ),
    Example(DCN1, DCN1, "trtsmith", OWN, convolution_inputs("x offset weight bias"), convolution()),
)  # fmt: skip

INCONSISTENT = tuple(inconsistent(DCN1, masked=False))


HUGE = huge_convolution(masked=False)

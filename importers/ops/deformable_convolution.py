"""Deformable convolution, "DCNv1" (Dai et al., Deformable Convolutional Networks, arXiv 1703.06211, equation 2)."""

from __future__ import annotations

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal
from trtsmith.importers.ops._deformable_conv import deformable_convolution
from trtsmith.importers.ops._deformable_conv_aliases import (
    MMCV_ATTRIBUTES,
    fields,
    onnx_alias,
    torchvision_alias,
)


def _mmcv_fields(node: AliasedNode) -> Fields:
    """mmcv writes padding (height, width); mmdeploy writes (top, bottom, left, right)."""
    a = node.attrs
    padding = a["padding"]
    if len(padding) == 4:
        top, bottom, left, right = padding
        padding = (top, left, bottom, right)
    return fields(a["stride"], padding, a["dilation"], a["groups"], a["deform_groups"])


def _mmcv_guard(node: AliasedNode) -> Refusal | None:
    if node.attrs["bias"]:
        return Refusal(
            "attribute 'bias' is set", "bias = 0: mmcv's operator has no bias", "add the bias after the node"
        )
    return None


DEFORMABLE_CONVOLUTION = deformable_convolution(
    masked=False,
    name="DeformableConvolution",
    doc=(
        "Convolution whose taps are moved by an offset in pixels and read bilinearly. Samples outside are zero."
    ),
    aliases=(
        Alias(
            op_type="MMCVDeformConv2d",
            domains=("mmcv", "mmdeploy"),
            inputs=("x", "offset", "weight"),
            attributes=(
                *(a for a in MMCV_ATTRIBUTES if a.name != "padding"),
                Attr("padding", Kind.INTS, (0, 0), lengths=(1, 2, 4)),
                Attr("bias", Kind.INT, 0),
                Attr("im2col_step", Kind.INT, ignored=True),
            ),
            guard=_mmcv_guard,
            fields=_mmcv_fields,
            source="mmcv, mmdeploy",
        ),
        onnx_alias(masked=False),
        torchvision_alias(masked=False),
    ),
)

"""Modulated deformable convolution, "DCNv2" (Zhu et al., Deformable ConvNets v2, arXiv 1811.11168, equation 1)."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal
from trtsmith.importers.ops._deformable_conv import deformable_convolution
from trtsmith.importers.ops._deformable_conv_aliases import (
    MMCV_ATTRIBUTES,
    fields,
    mmcv_fields,
    onnx_alias,
    spans,
    torchvision_alias,
)

_INPUTS = ("x", "offset", "mask", "weight", "bias?")


def _plain_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    groups = a["groups"] if "groups" in a else a["group"]
    return fields(a["stride"], a["padding"], a["dilation"], groups, a["deformable_group"])


def _nvidia_guard(node: AliasedNode) -> Refusal | None:
    """Exporters write (height, width) as PyTorch has it; the plugin reads (width, height). Equal numbers are safe."""
    for name in ("stride", "padding", "dilation"):
        value = node.attrs[name]
        if len(set(value)) > 1:
            return Refusal(
                f"{name} = {list(value)}: exporters mean (height, width), NVIDIA's plugin computes (width, height)",
                f"{name} with two equal numbers",
                "export the convolution as ai.onnx::DeformConv, whose order is certain",
            )
    return None


_SPANS = (spans("stride", 1), spans("padding", 0), spans("dilation", 1))
_DEFORMABLE_GROUP = Attr("deformable_group", Kind.INT, 1)


def _nvidia(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("nvidia", "trt"),
        inputs=_INPUTS,
        attributes=(*_SPANS, Attr("group", Kind.INT, 1), _DEFORMABLE_GROUP),
        guard=_nvidia_guard,
        fields=_plain_fields,
        source="NVIDIA TensorRT OSS, modulatedDeformConvPlugin",
    )


_CENTERNET = Alias(
    op_type="DCNv2",
    domains=(),
    inputs=_INPUTS,
    attributes=(*_SPANS, Attr("groups", Kind.INT, 1), _DEFORMABLE_GROUP),
    when=lambda node: "bias" in node.present or len(node.shapes.get("weight", ())) == 4,
    fields=_plain_fields,
    source="TensorRT-CenterNet, readme/ctdet2onnx; FairMOT's ports",
)

_FAIRMOT = replace(
    _CENTERNET,
    op_type="DCNv2Plugin",
    attributes=(*_CENTERNET.attributes, Attr("out_channel", Kind.INT, ignored=True)),
    source="FairMOT's ports, whose scripts rename DCNv2",
)

_PACKED_OFFSETS, _PACKED = 18, 27
"""Channels of the second input: (dy, dx) for each of 3x3 taps, then nine mask logits."""


def _packed_guard(node: AliasedNode) -> Refusal | None:
    """The plugin reads its attributes and then computes 3x3 with stride, padding and dilation 1 all the same."""
    for name in ("stride", "padding", "dilation"):
        if set(node.attrs[name]) != {1}:
            return Refusal(
                f"{name} = {list(node.attrs[name])}",
                f"{name} = [1, 1], all that the plugin computes",
                "use DeformConv",
            )
    if node.attrs["deformable_groups"] != 1:
        return Refusal(f"deformable_groups = {node.attrs['deformable_groups']}", "1", "use DeformConv")
    packed, weight = node.shapes.get("packed"), node.shapes.get("weight")
    if packed is not None and (len(packed) != 4 or packed[1] not in (None, _PACKED)):
        return Refusal(
            f"the second input is {list(packed)}",
            f"[N, {_PACKED}, H, W]: 18 offsets, (dy, dx) for each tap, then 9 mask logits",
            "use DeformConv, with offset and mask as inputs of their own",
        )
    if weight is not None and (len(weight) != 4 or any(d not in (None, 3) for d in weight[2:])):
        return Refusal(f"the weight is {list(weight)}", "[O, C, 3, 3]", "use DeformConv")
    return None


def _packed_fields(_node: AliasedNode) -> Fields:
    return fields((1, 1), (1, 1), (1, 1), 1, 1)


def _unpack(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    logits = g.Slice("packed", [_PACKED_OFFSETS], [_PACKED], [1])
    return {"offset": g.Slice("packed", [0], [_PACKED_OFFSETS], [1]), "mask": g.Sigmoid(logits)}


def _packed(op_type: str, source: str, *attributes: Attr) -> Alias:
    return Alias(
        op_type=op_type,
        domains=(),
        inputs=("x", "packed", "weight", "bias"),
        attributes=(
            spans("stride", 1),
            spans("padding", 1),
            spans("dilation", 1),
            Attr("deformable_groups", Kind.INT, 1),
            *attributes,
        ),
        guard=_packed_guard,
        fields=_packed_fields,
        prologue=_unpack,
        source=source,
    )


_DCNV2_TRT = _packed(
    "DCNv2_TRT",
    "dcnv2_trt (TensorRT 7), after tensorRTIntegrate",
    Attr("name", Kind.STRING, ignored=True),  # left over from the node that the model's script renames
    Attr("info", Kind.STRING, ignored=True),
)


_MMCV = Alias(
    op_type="MMCVModulatedDeformConv2d",
    domains=("mmcv", "mmdeploy"),
    inputs=_INPUTS,
    attributes=MMCV_ATTRIBUTES,
    fields=mmcv_fields,
    source="mmcv, mmdeploy",
)
_BEVFORMER = replace(_MMCV, op_type="ModulatedDeformableConv2dTRT", domains=(), source="BEVFormer_tensorrt")


MODULATED_DEFORMABLE_CONVOLUTION = deformable_convolution(
    masked=True,
    name="ModulatedDeformableConvolution",
    doc=(
        "Convolution whose taps are moved by an offset in pixels, read bilinearly and multiplied by a mask. "
        "Samples outside the input are zero."
    ),
    aliases=(
        _MMCV,
        _nvidia("ModulatedDeformConv2d"),
        _nvidia("CustomModulatedDeformConv2d"),
        onnx_alias(masked=True),
        torchvision_alias(masked=True),
        _CENTERNET,
        _FAIRMOT,
        _packed("DCNv2", "tensorRT_Pro, onnxplugin/plugins/DCNv2.cu; tensorRTIntegrate"),
        _DCNV2_TRT,
        _BEVFORMER,
        replace(_BEVFORMER, op_type="ModulatedDeformableConv2dTRT2"),
    ),
)

"""Lists the aliases that deformable convolutions with and without a mask share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal, attrs


def pair(value: Sequence[int]) -> tuple[int, int]:
    """Returns (height, width), given one number for both or two numbers."""
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


def spans(name: str, default: int) -> Attr:
    """Returns an attribute with one number for height and width, or one for each."""
    return Attr(name, Kind.INTS, (default, default), lengths=(1, 2))


def fields(stride: Any, padding: Sequence[int], dilation: Any, groups: int, offset_groups: int) -> Fields:
    """Computes the fields. padding: one number, (height, width), or (top, left, bottom, right)."""
    sides = tuple(padding) if len(padding) == 4 else pair(padding) * 2
    return {
        "stride": pair(stride),
        "padding": sides,
        "dilation": pair(dilation),
        "groups": groups,
        "offset_groups": offset_groups,
    }


MMCV_ATTRIBUTES = (
    spans("stride", 1),
    spans("padding", 0),
    spans("dilation", 1),
    *attrs(groups=1, deform_groups=1),
)


def mmcv_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return fields(a["stride"], a["padding"], a["dilation"], a["groups"], a["deform_groups"])


def _onnx_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return fields(a["strides"], a["pads"], a["dilations"], a["group"], a["offset_group"])


def _onnx_guard(node: AliasedNode) -> Refusal | None:
    x, weight = node.shapes.get("x"), node.shapes.get("weight")
    if x is not None and len(x) != 4:
        return Refusal(
            f"X has rank {len(x)}",
            "rank 4, a two-dimensional convolution",
            "keep this convolution out of TensorRT",
        )
    declared = node.attrs["kernel_shape"]
    if (
        declared
        and weight is not None
        and (
            len(declared) != len(weight) - 2
            or any(d != have for d, have in zip(declared, weight[2:], strict=True) if have)
        )
    ):
        return Refusal(
            f"kernel_shape is {list(declared)}, W is {list(weight)}",
            "kernel_shape equal to the last two dimensions of W",
            "remove kernel_shape",
        )
    return None


def onnx_alias(masked: bool) -> Alias:
    """Describes ai.onnx::DeformConv, whose mask may be connected or not."""
    return Alias(
        op_type="DeformConv",
        domains=("",),
        inputs=("x", "weight", "offset", "bias?", "mask?"),
        attributes=(
            Attr("strides", Kind.INTS, (1, 1), lengths=(2,)),
            Attr("pads", Kind.INTS, (0, 0, 0, 0), lengths=(4,)),
            Attr("dilations", Kind.INTS, (1, 1), lengths=(2,)),
            *attrs(group=1, offset_group=1),
            Attr("kernel_shape", Kind.INTS, (), lengths=(2,)),
        ),
        opsets=(19, None),
        when=lambda node: ("mask" in node.present) == masked,
        guard=_onnx_guard,
        fields=_onnx_fields,
        source="ONNX DeformConv 19 and 22",
    )


def _torchvision_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return fields(
        (a["stride_h"], a["stride_w"]),
        (a["pad_h"], a["pad_w"]),
        (a["dilation_h"], a["dilation_w"]),
        a["groups"],
        a["offset_groups"],
    )


_TORCHVISION_NUMBERS = (
    *("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w"),
    *("groups", "offset_groups", "use_mask"),
)


def torchvision_alias(masked: bool) -> Alias:
    """Describes torchvision::deform_conv2d. Its mask is always connected; use_mask says whether it counts."""
    return Alias(
        op_type="deform_conv2d",
        domains=("torchvision",),
        inputs=("x", "weight", "offset", "mask" if masked else "mask?", "bias?"),
        constants=tuple(Attr(name, Kind.INT) for name in _TORCHVISION_NUMBERS),
        when=lambda node: bool(node.attrs["use_mask"]) == masked,
        fields=_torchvision_fields,
        source="torchvision ops/deform_conv2d",
    )

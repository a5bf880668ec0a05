"""Lists the forms in which other tools write grouped deformable sampling."""

from __future__ import annotations

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal


def _channels_guard(node: AliasedNode) -> Refusal | None:
    """Channels of a group are an attribute, too, and their kernels take it for true."""
    group, each = node.attrs["group"], node.attrs["group_channels"]
    x = node.shapes.get("x")
    channels = x[3] if x is not None and len(x) == 4 else None
    if channels is not None and channels != group * each:
        return Refusal(
            f"group * group_channels is {group} * {each}, and the input has {channels} channels",
            "as many channels in the last dimension of the input",
            "export the node with its input as [N, H, W, C]",
        )
    return None


def _apart_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "kernel_shape": (a["kernel_h"], a["kernel_w"]),
        "stride": (a["stride_h"], a["stride_w"]),
        "padding": (a["pad_h"], a["pad_w"]),
        "dilation": (a["dilation_h"], a["dilation_w"]),
        "groups": a["group"],
        "offset_scale": a["offset_scale"],
        "remove_center": a["remove_center"],
    }


def _together_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "kernel_shape": (a["kh"], a["kw"]),
        "stride": (a["sh"], a["sw"]),
        "padding": (a["ph"], a["pw"]),
        "dilation": (a["dh"], a["dw"]),
        "groups": a["group"],
        "offset_scale": a["offscale"],
        "remove_center": a["remove_center"],
    }


ALIASES = (
    # mmdeploy's plugin has no remove_center and InternImage's exporter writes it. Without that tap there are fewer offsets.
    # For a stride above 1 that plugin gives one row and column less than the network has; the node means the network.
    Alias(
        op_type="TRTDCNv3",
        domains=("mmdeploy", "mmcv"),
        inputs=("x", "offset", "mask"),
        attributes=(
            Attr("kernel_h", Kind.INT, 3),
            Attr("kernel_w", Kind.INT, 3),
            Attr("stride_h", Kind.INT, 1),
            Attr("stride_w", Kind.INT, 1),
            Attr("pad_h", Kind.INT, 1),
            Attr("pad_w", Kind.INT, 1),
            Attr("dilation_h", Kind.INT, 1),
            Attr("dilation_w", Kind.INT, 1),
            Attr("group", Kind.INT, 28),
            Attr("group_channels", Kind.INT, 16),
            Attr("offset_scale", Kind.FLOAT, 1.0),
            Attr("remove_center", Kind.INT, 0),
            Attr("im2col_step", Kind.INT, ignored=True),
        ),
        guard=_channels_guard,
        fields=_apart_fields,
        source="mmdeploy 0.x, trt_deform_conv_v3; InternImage, ops_dcnv3/functions/dcnv3_func",
    ),
    Alias(
        op_type="DCNv4_Plugin",
        domains=("custom_op",),
        inputs=("x", "offset"),
        attributes=(
            Attr("kh", Kind.INT),
            Attr("kw", Kind.INT),
            Attr("sh", Kind.INT),
            Attr("sw", Kind.INT),
            Attr("ph", Kind.INT),
            Attr("pw", Kind.INT),
            Attr("dh", Kind.INT),
            Attr("dw", Kind.INT),
            Attr("group", Kind.INT),
            Attr("group_channels", Kind.INT),
            Attr("offscale", Kind.FLOAT),
            Attr("remove_center", Kind.INT, 0),
            Attr("step", Kind.INT, ignored=True),
        ),
        guard=_channels_guard,
        fields=_together_fields,
        source="NVIDIA DL4AGX, DCNv4; OpenGVLab DCNv4, dcnv4_func",
    ),
)

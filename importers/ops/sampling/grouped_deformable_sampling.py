"""Deformable sampling in groups of channels: DCNv3 (arXiv 2211.05778) and DCNv4 (arXiv 2401.06197)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from trtsmith.importers.builder import TO_END, Builder, Value, bounded
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    attrs,
)
from trtsmith.importers.ops._shared import flag
from trtsmith.importers.ops.sampling._grouped_deformable_sampling_cases import (
    BENCHMARKS,
    CASES,
    check,
    reach,
    shape,
    taps,
    work,
)


def expand(expansion: Expansion) -> Value:
    """Writes one graph for any batch, height and width, with the fields' values inlined.

    The input becomes rows [N*H*W*G + 1, C/G], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    bounded(prod(fields["kernel_shape"]))
    groups, places, scale = fields["groups"], taps(fields), float(fields["offset_scale"])
    count = len(places)
    x_shape, offset_shape = g.Shape("x"), g.Shape("offset")
    n, h, w, c = (x_shape[i : i + 1] for i in range(4))
    out_h, out_w = offset_shape[1:2], offset_shape[2:3]
    points, cells = out_h * out_w, h * w
    all_rows = n * cells * [groups]
    depth = c / [groups]
    rows = g.Concat(g.Reshape("x", [all_rows, depth]), g.Expand(0.0, [1, depth]), axis=0)
    sample_shape = g.vector(n, points, groups, count)
    pairs_shape = g.vector(n, points, groups, count, 2)
    if "mask" in expansion.present:
        pairs, weights = g.Reshape("offset", pairs_shape), g.Reshape("mask", sample_shape)
    else:  # offsets and weights of a group side by side
        given = g.Slice("offset", [0], [3 * groups * count], [3])
        grouped = g.Reshape(given, [n, points, groups, 3 * count])
        pairs = g.Reshape(g.Slice(grouped, [0], [2 * count], [3]), pairs_shape)
        weights = g.Slice(grouped, [2 * count], [3 * count], [3])
    plane_shape = g.vector(out_h, out_w)
    origin_shape = g.vector(1, points, 1, 1)

    def positions(axis: int, place: int, size: Value, shape: Value) -> Value:
        """Computes positions along y or x (axes 0 and 1), whose offsets are at `place` of a pair."""
        middle = reach(fields, axis) // 2
        steps = [scale * (tap[axis] * fields["dilation"][axis] - middle) for tap in places]
        origin = g.arange(size) * fields["stride"][axis] + (middle - fields["padding"][axis])
        origin = g.Cast(g.Expand(g.Reshape(origin, shape), plane_shape), to="float32")
        move = g.Reshape(g.Slice(pairs, [place], [place + 1], [4]), sample_shape) * scale
        return move + np.array(steps, np.float32) + g.Reshape(origin, origin_shape)

    y = positions(0, 1, out_h, g.vector(out_h, 1))
    x = positions(1, 0, out_w, g.vector(1, out_w))
    up, left = g.Floor(y), g.Floor(x)
    share_down, share_right = y - up, x - left
    bottom_limit, right_limit = g.Cast(h, to="float32") - 0.5, g.Cast(w, to="float32") - 0.5
    first_cell = g.Reshape(g.arange(n) * cells, [n, 1, 1, 1])
    group_row = g.Reshape(g.arange([groups]), [1, 1, groups, 1])
    share_shape = g.vector(n, points, groups, count, 1)

    def corner(row: Value, share_row: Value, column: Value, share_column: Value) -> Value:
        in_rows = (row > -0.5) & (row < bottom_limit)
        inside = in_rows & ((column > -0.5) & (column < right_limit))
        row_start = g.Cast(g.Where(inside, row, 0.0), to="int64") * w
        cell = row_start + g.Cast(g.Where(inside, column, 0.0), to="int64")
        index = g.Where(inside, (cell + first_cell) * [groups] + group_row, all_rows)
        share = g.Where(inside, share_row * share_column * weights, 0.0)
        samples = g.Gather(rows, index, axis=0) * g.Reshape(share, share_shape)
        return g.ReduceSum(samples, axes=[3], keepdims=0)

    above, below = (up, 1.0 - share_down), (up + 1.0, share_down)
    before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
    upper = corner(*above, *before) + corner(*above, *after)
    total = upper + (corner(*below, *before) + corner(*below, *after))
    return g.Reshape(total, [n, out_h, out_w, c])


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


def _fields(node: AliasedNode, *pairs: str) -> Fields:
    """pairs: what the names of both sizes of kernel, stride, padding and dilation begin with."""
    a = node.attrs
    names = ("kernel_shape", "stride", "padding", "dilation")
    sizes = {name: (a[f"{pair}h"], a[f"{pair}w"]) for name, pair in zip(names, pairs, strict=True)}
    scale = a["offset_scale"] if "offset_scale" in a else a["offscale"]
    return {**sizes, "groups": a["group"], "offset_scale": scale, "remove_center": a["remove_center"]}


def _apart_fields(node: AliasedNode) -> Fields:
    return _fields(node, "kernel_", "stride_", "pad_", "dilation_")


def _together_fields(node: AliasedNode) -> Fields:
    return _fields(node, "k", "s", "p", "d")


def _rows_guard(node: AliasedNode) -> Refusal | None:
    group, each = node.attrs["group"], node.attrs["group_channels"]
    rows = node.shapes.get("rows", ())
    if each < 1 or (len(rows) == 4 and rows[3] is not None and rows[3] <= group * each):
        return Refusal(
            f"group * group_channels is {group} * {each}, and the input is {list(rows)}",
            "rows [N, H, W, C] of all groups' values with offsets and masks behind them",
            "export the node with the rows of its plugin",
        )
    return None


def _parts_of_rows(node: AliasedNode) -> dict[str, Value]:
    """Values of all groups, and behind them what the plugin of two inputs has in its second one."""
    g, channels = node.builder(), node.attrs["group"] * node.attrs["group_channels"]
    return {"x": g.Slice("rows", [0], [channels], [3]), "offset": g.Slice("rows", [channels], [TO_END], [3])}


_DCNV4 = Alias(
    op_type="DCNv4_Plugin",
    domains=("custom_op",),
    inputs=("x", "offset"),
    attributes=(
        *attrs(kh=int, kw=int, sh=int, sw=int, ph=int, pw=int, dh=int, dw=int, group=int, group_channels=int),
        *attrs(offscale=float, remove_center=0),
        Attr("step", Kind.INT, ignored=True),
    ),
    guard=_channels_guard,
    fields=_together_fields,
    source="NVIDIA DL4AGX, DCNv4; OpenGVLab DCNv4, dcnv4_func",
)

ALIASES = (
    # mmdeploy's plugin has no remove_center and InternImage's exporter writes it. Without that tap there are fewer offsets.
    # For a stride above 1 that plugin gives one row and column less than the network has; the node means the network.
    Alias(
        op_type="TRTDCNv3",
        domains=("mmdeploy", "mmcv"),
        inputs=("x", "offset", "mask"),
        attributes=(
            *attrs(kernel_h=3, kernel_w=3, stride_h=1, stride_w=1, pad_h=1, pad_w=1, dilation_h=1),
            *attrs(dilation_w=1, group=28, group_channels=16, offset_scale=1.0, remove_center=0),
            Attr("im2col_step", Kind.INT, ignored=True),
        ),
        guard=_channels_guard,
        fields=_apart_fields,
        source="mmdeploy 0.x, trt_deform_conv_v3; InternImage, ops_dcnv3/functions/dcnv3_func",
    ),
    _DCNV4,
    replace(
        _DCNV4,
        op_type="DCNv4FuseOffset_Plugin",
        inputs=("rows",),
        guard=_rows_guard,
        prologue=_parts_of_rows,
        source="NVIDIA DL4AGX, dcnv4-trt, whose script joins the products of values and of offsets",
    ),
)


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Tap by tap in float64, on an input with a ring of zeros around it.

    A position clamped into the ring reads zero, so no corner needs a test of its own; NaN goes to the ring as well.
    """
    x = inputs["x"].astype(np.float64)
    batch, height, width, channels = x.shape
    out_h, out_w = inputs["offset"].shape[1:3]
    groups, scale, order = fields["groups"], fields["offset_scale"], taps(fields)
    offset, mask = _parts(inputs, groups, len(order))
    ringed = np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0)))
    ringed = ringed.reshape(batch, height + 3, width + 3, groups, channels // groups)
    n = np.arange(batch)[:, None, None, None]
    g = np.arange(groups)
    output = np.zeros((batch, out_h, out_w, groups, channels // groups))

    def along(axis: int, count: int, tap: int) -> np.ndarray:
        """Where the tap lies for every output row or column, before offsets: the kernel grows about its middle."""
        middle = fields["dilation"][axis] * (fields["kernel_shape"][axis] - 1) // 2
        start = np.arange(count) * fields["stride"][axis] - fields["padding"][axis] + middle
        places: np.ndarray = start + scale * (tap * fields["dilation"][axis] - middle)
        return places

    for t, (row, column) in enumerate(order):
        with np.errstate(invalid="ignore"):
            y = along(0, out_h, row)[:, None, None] + scale * offset[..., t, 1]
            z = along(1, out_w, column)[:, None] + scale * offset[..., t, 0]
        y = np.clip(np.nan_to_num(y, nan=-1), -1, height) + 1
        z = np.clip(np.nan_to_num(z, nan=-1), -1, width) + 1
        above, left = np.floor(y).astype(np.int64), np.floor(z).astype(np.int64)
        fy, fz = (y - above)[..., None], (z - left)[..., None]
        upper = ringed[n, above, left, g] * (1 - fz) + ringed[n, above, left + 1, g] * fz
        lower = ringed[n, above + 1, left, g] * (1 - fz) + ringed[n, above + 1, left + 1, g] * fz
        output += (upper * (1 - fy) + lower * fy) * mask[..., t, None]
    return {"output": output.reshape(batch, out_h, out_w, channels)}


def _parts(inputs: Arrays, groups: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets [N, Ho, Wo, G, K, 2] and mask [N, Ho, Wo, G, K], from two tensors or from one."""
    offset = inputs["offset"].astype(np.float64)
    places = offset.shape[:3]
    if "mask" in inputs:
        mask = inputs["mask"].astype(np.float64)
        return offset.reshape(*places, groups, count, 2), mask.reshape(*places, groups, count)
    both = offset[..., : groups * count * 3].reshape(*places, groups, count * 3)
    return both[..., : 2 * count].reshape(*places, groups, count, 2), both[..., 2 * count :]


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """grid_sample with a group as an image of its own, as the authors' PyTorch fallback of DCNv3 formulates it.

    In float32 at least, as the authors' kernels compute: half precision has no fractions left at a few hundred pixels.
    """
    import torch
    import torch.nn.functional as functional

    x, offset = inputs["x"], inputs["offset"]
    batch, height, width, channels = x.shape
    out_h, out_w = offset.shape[1:3]
    groups, scale, places = fields["groups"], fields["offset_scale"], taps(fields)
    count, dtype = len(places), x.dtype
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    if x.numel() == 0 or offset.numel() == 0:
        return (x.new_zeros(batch, out_h, out_w, channels),)
    if "mask" in inputs:
        moved, weights = offset, inputs["mask"]
    else:
        moved, weights = (
            offset[..., : groups * count * 3].unflatten(-1, (groups, 3 * count)).split((2 * count, count), -1)
        )
    moved = moved.reshape(batch, out_h * out_w, groups, count, 2).transpose(1, 2).to(exact)

    def normalised(axis: int, size: int, outputs: int) -> Any:
        """Of x or y at [N, G, Ho, Wo, K]; what is far outside stays outside, as grid_sample casts without a check."""
        middle = fields["dilation"][axis] * (fields["kernel_shape"][axis] - 1) // 2
        tap = torch.tensor([place[axis] for place in places], device=x.device, dtype=exact)
        out = torch.arange(outputs, device=x.device) * fields["stride"][axis]
        out = (out + (middle - fields["padding"][axis])).to(exact)
        out = out[:, None, None] if axis == 0 else out[None, :, None]
        place = moved[..., 1 - axis].reshape(batch, groups, out_h, out_w, count)
        at = out + scale * (tap * fields["dilation"][axis] - middle + place)
        at = torch.nan_to_num(at, nan=-2.0).clamp(-2, size + 1)
        return (2 * at + 1) / size - 1

    grid = torch.stack((normalised(1, width, out_w), normalised(0, height, out_h)), -1)
    sampled = functional.grid_sample(
        x.to(exact).reshape(batch, height, width, groups, -1).permute(0, 3, 4, 1, 2).flatten(0, 1),
        grid.reshape(batch * groups, out_h * out_w, count, 2),
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    )
    weights = weights.reshape(batch, out_h * out_w, groups, count).transpose(1, 2).to(exact)
    output = (sampled * weights.reshape(batch * groups, 1, out_h * out_w, count)).sum(-1)
    output = output.reshape(batch, channels, out_h, out_w).permute(0, 2, 3, 1)
    return (output.to(dtype).contiguous(),)


GROUPED_DEFORMABLE_SAMPLING = OpDef(
    name="GroupedDeformableSampling",
    doc=(
        "Deformable sampling in groups of channels (DCNv3, DCNv4): a kernel's taps, each moved by an offset, are "
        "bilinear samples of a feature map with its channels last, weighted by a mask and summed for each group. G "
        "groups, K taps, column by column. Tap (i, j) of output (y, x) lies at y * stride - padding + m + offset_scale "
        "* (i * dilation - m + dy), where m = dilation * (kernel_shape - 1) // 2, and so across; pixels outside are "
        "zero. DCNv3 has offsets and mask in two tensors, DCNv4 in one."
    ),
    inputs=(
        Port("x", "T", 4, "[N, H, W, C]"),
        Port(
            "offset",
            "T",
            4,
            "[N, Ho, Wo, G*K*2] in pixels, (dx, dy) of each tap; without a mask input, [N, Ho, Wo, at least G*K*3]: for "
            "each group 2*K offsets, then K numbers of the mask; then filling",
            positions=True,
        ),
        Port(
            "mask",
            "T",
            4,
            "[N, Ho, Wo, G*K], softmax already applied where there is one",
            optional=True,
            meaning=Meaning.SHARE,
        ),
    ),
    outputs=(Port("output", "T", 4, "[N, Ho, Wo, C]"),),
    fields=(
        Field("kernel_shape", Kind.INTS, "(height, width)", length=2, default=(3, 3), minimum=1),
        Field("stride", Kind.INTS, "(height, width)", length=2, default=(1, 1), minimum=1),
        Field(
            "padding", Kind.INTS, "(height, width), zeros on both sides", length=2, default=(1, 1), minimum=0
        ),
        Field("dilation", Kind.INTS, "(height, width)", length=2, default=(1, 1), minimum=1),
        Field(
            "groups",
            Kind.INT,
            "G, groups of channels with taps of their own; divides C",
            default=1,
            minimum=1,
        ),
        Field(
            "offset_scale",
            Kind.FLOAT,
            "factor of the offsets and of the taps' own distances",
            default=1.0,
            minimum=0,
        ),
        flag("remove_center", "1: without the tap in the middle"),
    ),
    shape=shape,
    check=check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=ALIASES,
    cases=CASES,
    tolerance={"float32": 3e-6, "float16": 4.4e-4, "bfloat16": 3.6e-3},
    benchmarks=BENCHMARKS,
    work=work,
)

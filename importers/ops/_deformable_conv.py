"""Defines what deformable convolution (Dai et al., arXiv 1703.06211) and its modulated form (arXiv 1811.11168) share.

Both are one computation: the second multiplies every sample by a mask. N batch, C channels in, O channels out, G groups
of the convolution, OG groups of offsets, K = KH*KW taps in row-major order, Ho x Wo output.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.dims import Unknown
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Arrays,
    Expansion,
    Field,
    Fields,
    Filters,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._deformable_conv_cases import benchmarks, cases
from trtsmith.importers.ops._shared import size_faults, size_of


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    """Padding that is not the same on both sides goes on the input: torchvision has none. Zeros outside mean the same."""
    import torch
    from torchvision.ops import deform_conv2d

    x, padding = tensors["x"], _symmetric(fields)
    if padding is None:
        top, left, bottom, right = fields["padding"]
        x, padding = torch.nn.functional.pad(x, (left, right, top, bottom)), (0, 0)
    output = deform_conv2d(
        x,
        tensors["offset"],
        tensors["weight"],
        tensors.get("bias"),
        stride=tuple(fields["stride"]),
        padding=padding,
        dilation=tuple(fields["dilation"]),
        mask=tensors.get("mask"),
    )
    return (output,)


def _convolution(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    """A plain convolution of the same size."""
    import torch

    padding = _symmetric(fields)
    if padding is None:
        raise ValueError("the padding differs between the sides")
    output = torch.nn.functional.conv2d(
        tensors["x"],
        tensors["weight"],
        tensors.get("bias"),
        stride=tuple(fields["stride"]),
        padding=padding,
        dilation=tuple(fields["dilation"]),
        groups=fields["groups"],
    )
    return (output,)


def _symmetric(fields: Fields) -> tuple[int, int] | None:
    """(height, width), or None where it is not the same on both sides."""
    top, left, bottom, right = fields["padding"]
    return (top, left) if (top, left) == (bottom, right) else None


def expand(expansion: Expansion) -> Value:
    """Writes one graph for any batch, height and width, with the fields' values inlined.

    The input becomes rows [N*OG*H*W + 1, C/OG], the last of which is zero. Each of the four corners of every sample is
    gathered by row; a corner outside the input, or of a position that is NaN, has weight zero and takes the last row.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    groups, offset_groups = [fields["groups"]], [fields["offset_groups"]]
    x_shape, weight_shape, offset_shape = g.Shape("x"), g.Shape("weight"), g.Shape("offset")
    n, c, h, w = (x_shape[i : i + 1] for i in range(4))
    out_channels, kernel_width, kernel_shape = weight_shape[:1], weight_shape[3:4], weight_shape[2:4]
    out_h, out_w, out_size = offset_shape[2:3], offset_shape[3:4], offset_shape[2:4]
    taps = g.ReduceProd(kernel_shape, keepdims=1)
    cells, area = h * w, out_h * out_w
    images = n * offset_groups
    all_cells = images * cells
    group_channels = c / offset_groups

    grouped = g.Reshape("x", [images, group_channels, cells])
    value_rows = g.Reshape(g.Transpose(grouped, perm=[0, 2, 1]), [all_cells, group_channels])
    rows = g.Concat(value_rows, g.Expand(0.0, [1, group_channels]), axis=0)
    first_row = g.Reshape(g.arange(images) * cells, [images, 1, 1, 1])

    tap = g.arange(taps)
    tap_row = tap / kernel_width
    tap_shape = g.vector(taps, 1, 1)
    plane_shape = g.vector(images, taps, out_h, out_w)
    moves = g.Reshape("offset", [images, taps, 2, out_h, out_w])

    def positions(axis: int, tap: Value, count: Value, shape: list[Value | int]) -> Value:
        """Computes where each tap of each output pixel lies along one axis, y or x."""
        tap_column = g.Reshape(tap * [fields["dilation"][axis]], tap_shape)
        out = g.arange(count) * [fields["stride"][axis]] - [fields["padding"][axis]]
        move = g.Reshape(g.Slice(moves, [axis], [axis + 1], [2]), plane_shape)
        return move + g.Cast(tap_column + g.Reshape(out, shape), to="float32")

    y = positions(0, tap_row, out_h, [1, out_h, 1])
    x = positions(1, tap - tap_row * kernel_width, out_w, [1, 1, out_w])
    up, left = g.Floor(y), g.Floor(x)
    share_down, share_right = y - up, x - left
    bottom_limit, right_limit = g.Cast(h, to="float32") - 0.5, g.Cast(w, to="float32") - 0.5
    share_shape = g.vector(images, taps, out_h, out_w, 1)

    def corner(row: Value, share_row: Value, column: Value, share_column: Value) -> Value:
        in_rows = (row > -0.5) & (row < bottom_limit)
        in_columns = (column > -0.5) & (column < right_limit)
        inside = in_rows & in_columns
        row_start = g.Cast(g.Where(inside, row, 0.0), to="int64") * w
        cell = row_start + g.Cast(g.Where(inside, column, 0.0), to="int64")
        values = g.Gather(rows, g.Where(inside, cell + first_row, all_cells), axis=0)
        return values * g.Reshape(g.Where(inside, share_row * share_column, 0.0), share_shape)

    above, below = (up, 1.0 - share_down), (up + 1.0, share_down)
    before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
    upper = corner(*above, *before) + corner(*above, *after)
    sampled = upper + (corner(*below, *before) + corner(*below, *after))
    if "mask" in expansion.present:
        sampled = sampled * g.Reshape("mask", share_shape)

    samples = g.Reshape(sampled, [n, offset_groups[0], taps, area, group_channels])
    depth = c / groups * taps
    columns = g.Reshape(g.Transpose(samples, perm=[1, 4, 2, 0, 3]), [*groups, depth, n * area])
    kernel_rows = g.Reshape("weight", [*groups, out_channels / groups, depth])
    planes = g.Reshape(g.MatMul(kernel_rows, columns), [out_channels, n, area])
    output = g.Reshape(g.Transpose(planes, perm=[1, 0, 2]), [n, out_channels, out_size])
    if "bias" in expansion.present:
        return output + g.Reshape("bias", [out_channels, 1, 1])
    return output


FIELDS = (
    Field("stride", Kind.INTS, "(height, width)", length=2, default=(1, 1), minimum=1),
    Field(
        "padding", Kind.INTS, "(top, left, bottom, right), zeros", length=4, default=(0, 0, 0, 0), minimum=0
    ),
    Field("dilation", Kind.INTS, "(height, width)", length=2, default=(1, 1), minimum=1),
    Field("groups", Kind.INT, "groups of the convolution; divides C and O", default=1, minimum=1),
    Field(
        "offset_groups",
        Kind.INT,
        "groups of channels with offsets of their own; divides C",
        default=1,
        minimum=1,
    ),
)

X = Port("x", "T", 4, "[N, C, H, W]")
OFFSET = Port("offset", "T", 4, "[N, 2*OG*KH*KW, Ho, Wo] in pixels, (dy, dx) interleaved for each tap")
MASK = Port("mask", "T", 4, "[N, OG*KH*KW, Ho, Wo], already activated", meaning=Meaning.SHARE)
WEIGHT = Port("weight", "T", 4, "[O, C/groups, KH, KW]")
BIAS = Port("bias", "T", 1, "[O]", optional=True)
OUTPUT = Port("output", "T", 4, "[N, O, Ho, Wo]")


"""PyTorch's own error on the large cases: 2.9e-6 (positions up to 320 pixels, rounded), 2.7e-4 and 2.1e-3."""


def _extent(fields: Fields, axis: int, size: Any, kernel: Any) -> Any:
    """Output size along the axis (0 height, 1 width): that of a convolution without offsets."""
    padding = fields["padding"][axis] + fields["padding"][axis + 2]
    return (size + padding - (fields["dilation"][axis] * (kernel - 1) + 1)) // fields["stride"][axis] + 1


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    """Takes height and width from `offset`, whose symbolic names stay."""
    extents = []
    for axis in (0, 1):
        size = shapes["offset"][2 + axis]
        if isinstance(size, Unknown) and size.name is None:
            size = _extent(fields, axis, shapes["x"][2 + axis], shapes["weight"][2 + axis])
        extents.append(size)
    return {"output": (shapes["x"][0], shapes["weight"][0], *extents)}


def check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Checks that batch, channels, taps and output size agree between the inputs, and that groups divide the channels."""
    faults: list[str] = []
    groups, offset_groups = fields["groups"], fields["offset_groups"]

    size = partial(size_of, shapes)

    def agree(*rule: Any) -> None:
        faults.extend(size_faults(shapes, rule))

    def divides(field: str, by: int, what: str, channels: int | None) -> None:
        if channels is not None and channels % by:
            faults.append(f"{field} = {by} does not divide {what} = {channels}")

    channels, out_channels = size("x", 1), size("weight", 0)
    divides("groups", groups, "x[1]", channels)
    divides("groups", groups, "weight[0]", out_channels)
    divides("offset_groups", offset_groups, "x[1]", channels)
    if channels is not None and channels % groups == 0:
        agree("weight", 1, channels // groups, "x[1] / groups")
    kernel = (size("weight", 2), size("weight", 3))
    for axis, tap in enumerate(kernel):
        if tap == 0:
            faults.append(f"weight[{2 + axis}] = 0: a kernel without taps")
    taps = kernel[0] * kernel[1] if kernel[0] is not None and kernel[1] is not None else None
    if taps is not None:
        agree("offset", 1, 2 * offset_groups * taps, "2 * offset_groups * KH * KW")
        agree("mask", 1, offset_groups * taps, "offset_groups * KH * KW")
    agree("bias", 0, out_channels, "weight[0]")
    for port in ("offset", "mask"):
        agree(port, 0, size("x", 0), "x[0]")
        for axis in (0, 1):
            extent, tap = size("x", 2 + axis), kernel[axis]
            if extent is not None and tap is not None:
                agree(
                    port, 2 + axis, _extent(fields, axis, extent, tap), "the size of the convolution's output"
                )
            elif port == "mask":
                agree(port, 2 + axis, size("offset", 2 + axis), f"offset[{2 + axis}]")
    return faults


def reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Adds tap by tap in float64, on an input with a ring of zeros around it.

    A position clamped into the ring reads zero, so no corner needs a test of its own; NaN goes to the ring as well.
    """
    x, offset, weight = (inputs[name].astype(np.float64) for name in ("x", "offset", "weight"))
    batch, channels, height, width = x.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    out_h, out_w = offset.shape[2:]
    groups, offset_groups = fields["groups"], fields["offset_groups"]
    (stride_h, stride_w), (dilation_h, dilation_w) = fields["stride"], fields["dilation"]
    top, left = fields["padding"][:2]

    ringed = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    ringed = ringed.reshape(batch, offset_groups, channels // offset_groups, height + 3, width + 3)
    offset = offset.reshape(batch, offset_groups, kernel_h, kernel_w, 2, out_h, out_w)
    mask = (
        inputs["mask"].astype(np.float64).reshape(*offset.shape[:4], out_h, out_w)
        if "mask" in inputs
        else None
    )
    n = np.arange(batch)[:, None, None, None]
    g = np.arange(offset_groups)[None, :, None, None]
    output = np.zeros((batch, groups, out_channels // groups, out_h * out_w))
    for i in range(kernel_h):
        for j in range(kernel_w):
            y = offset[:, :, i, j, 0] + (np.arange(out_h) * stride_h - top + i * dilation_h)[:, None]
            z = offset[:, :, i, j, 1] + (np.arange(out_w) * stride_w - left + j * dilation_w)
            y = np.clip(np.nan_to_num(y, nan=-1), -1, height) + 1
            z = np.clip(np.nan_to_num(z, nan=-1), -1, width) + 1
            row, column = np.floor(y).astype(np.int64), np.floor(z).astype(np.int64)
            fy, fz = (y - row)[..., None], (z - column)[..., None]
            upper = ringed[n, g, :, row, column] * (1 - fz) + ringed[n, g, :, row, column + 1] * fz
            lower = ringed[n, g, :, row + 1, column] * (1 - fz) + ringed[n, g, :, row + 1, column + 1] * fz
            sample = upper * (1 - fy) + lower * fy
            if mask is not None:
                sample = sample * mask[:, :, i, j, ..., None]
            sample = np.moveaxis(sample, -1, 2).reshape(batch, groups, channels // groups, out_h * out_w)
            output += weight[:, :, i, j].reshape(groups, out_channels // groups, channels // groups) @ sample
    output = output.reshape(batch, out_channels, out_h, out_w)
    if "bias" in inputs:
        output = output + inputs["bias"].astype(np.float64)[:, None, None]
    return {"output": output}


def torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Gathers the columns, then computes one batched matrix product.

    Values, mask and product are in the inputs' dtype; positions are at least float32, because half precision has no
    fractions left at coordinates of a few hundred.
    """
    import torch

    x, offset, weight = inputs["x"], inputs["offset"], inputs["weight"]
    batch, channels, height, width = x.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    out_h, out_w = offset.shape[2:]
    groups, offset_groups = fields["groups"], fields["offset_groups"]
    taps, group_channels = kernel_h * kernel_w, channels // offset_groups
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32

    def base(size: int, axis: int, tap: Any) -> Any:
        out = torch.arange(size, device=x.device) * fields["stride"][axis] - fields["padding"][axis]
        return (tap[:, None] * fields["dilation"][axis] + out).to(exact)

    tap = torch.arange(taps, device=x.device)
    moved = offset.to(exact).reshape(batch, offset_groups, taps, 2, out_h, out_w)
    y = moved[:, :, :, 0] + base(out_h, 0, tap // kernel_w)[:, :, None]
    z = moved[:, :, :, 1] + base(out_w, 1, tap % kernel_w)[:, None, :]
    source = x.reshape(batch, offset_groups, group_channels, height * width)
    columns = x.new_zeros(batch, offset_groups, group_channels, taps * out_h * out_w)
    nought = y.new_zeros(())
    for row in (y.floor(), y.floor() + 1) if height * width else ():
        for column in (z.floor(), z.floor() + 1):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            share = torch.where(inside, (1 - (y - row).abs()) * (1 - (z - column).abs()), nought)
            index = (
                torch.where(inside, row, nought).long() * width + torch.where(inside, column, nought).long()
            )
            flat = (batch, offset_groups, 1, taps * out_h * out_w)
            values = source.gather(3, index.reshape(flat).expand(-1, -1, group_channels, -1))
            columns = columns + values * share.to(x.dtype).reshape(flat)
    if "mask" in inputs:
        columns = columns * inputs["mask"].reshape(batch, offset_groups, 1, taps * out_h * out_w)
    columns = columns.reshape(batch, groups, channels // groups * taps, out_h * out_w)
    kernel = weight.reshape(groups, out_channels // groups, channels // groups * taps)
    output = torch.matmul(kernel, columns).reshape(batch, out_channels, out_h, out_w)
    if "bias" in inputs:
        output = output + inputs["bias"][:, None, None]
    return (output,)


def work(fields: Fields, shapes: Shapes) -> Work:
    """Counts four corners for each sample of a channel, their weights once for an offset group, and the convolution."""
    batch, channels = shapes["x"][:2]
    out_channels, depth, kernel_h, kernel_w = shapes["weight"]
    places = batch * kernel_h * kernel_w * shapes["output"][2] * shapes["output"][3]
    # Positions 2, fractions 2, their complements 2, products 4, rounding 2.
    shares = 12 + 4 * ("mask" in shapes)
    return Work(
        flops=places * (channels * 8 + fields["offset_groups"] * shares),
        matrix_flops=2 * places * out_channels * depth,
    )


def deformable_convolution(masked: bool, **own: Any) -> OpDef:
    """Defines the operator with or without a mask input. own: its name, its doc and its aliases."""
    return OpDef(
        inputs=(X, OFFSET, *((MASK,) if masked else ()), WEIGHT, BIAS),
        outputs=(OUTPUT,),
        fields=FIELDS,
        shape=shape,
        check=check,
        reference=reference,
        torch_reference=torch_reference,
        expand=expand,
        cases=cases(masked),
        tolerance={"float32": 5e-6, "float16": 5e-4, "bfloat16": 4e-3},
        filters=Filters(weights=WEIGHT.name, bias=BIAS.name),
        tensor_cores=True,
        baselines={"torchvision": _torchvision, "convolution": _convolution},
        benchmarks=benchmarks(masked),
        work=work,
        workspace=True,
        **own,
    )

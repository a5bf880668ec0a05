"""Defines what deformable convolution (Dai et al., arXiv 1703.06211) and its modulated form (arXiv 1811.11168) share.

Both are one computation: the second multiplies every sample by a mask. N batch, C channels in, O channels out, G groups
of the convolution, OG groups of offsets, K = KH*KW taps in row-major order, Ho x Wo output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.dims import Unknown
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Arrays, Field, Fields, Filters, Kind, Port, Shapes, Work

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

FILTERS = Filters(weights=WEIGHT.name, bias=BIAS.name)

TOLERANCE = {"float32": 5e-6, "float16": 5e-4, "bfloat16": 4e-3}
"""PyTorch's own error on the large cases: 2.9e-6 (positions up to 320 pixels, rounded), 2.7e-4 and 2.1e-3."""


def _extent(fields: Fields, axis: int, size: Any, kernel: Any) -> Any:
    """Output size along the axis (0 height, 1 width): that of a convolution without offsets."""
    padding = fields["padding"][axis] + fields["padding"][axis + 2]
    return (size + padding - (fields["dilation"][axis] * (kernel - 1) + 1)) // fields["stride"][axis] + 1


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    """Height and width are those of `offset`, which keep their names where they are symbolic."""
    extents = []
    for axis in (0, 1):
        size = shapes["offset"][2 + axis]
        if isinstance(size, Unknown) and size.name is None:
            size = _extent(fields, axis, shapes["x"][2 + axis], shapes["weight"][2 + axis])
        extents.append(size)
    return {"output": (shapes["x"][0], shapes["weight"][0], *extents)}


def check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Batch, channels, taps and output size must agree between the inputs; groups must divide the channels."""
    faults: list[str] = []
    groups, offset_groups = fields["groups"], fields["offset_groups"]

    def size(port: str, axis: int) -> int | None:
        return shapes[port][axis] if port in shapes else None

    def agree(port: str, axis: int, expected: int | None, because: str) -> None:
        have = size(port, axis)
        if None not in (have, expected) and have != expected:
            faults.append(f"{port}[{axis}] = {have}, not {expected} = {because}")

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
    """Tap by tap in float64, on an input with a ring of zeros around it.

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
    """Columns by gather, then one batched matrix product.

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
    """Four corners for each sample of a channel; their shares, once for an offset group; then the convolution."""
    batch, channels = shapes["x"][:2]
    out_channels, depth, kernel_h, kernel_w = shapes["weight"]
    places = batch * kernel_h * kernel_w * shapes["output"][2] * shapes["output"][3]
    shares = 12 + 4 * (
        "mask" in shapes
    )  # positions 2, fractions 2, their complements 2, products 4, rounding 2
    return Work(
        flops=places * (channels * 8 + fields["offset_groups"] * shares),
        matrix_flops=2 * places * out_channels * depth,
    )

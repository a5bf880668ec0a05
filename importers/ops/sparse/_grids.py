"""Defines fields, grid sizes and checks that rulebooks share.

A rulebook of a convolution on a grid [batch, depth, height, width] of which few cells are there: K = KD*KH*KW taps of the
kernel in row-major order, N rows of coordinates (batch, z, y, x), M rows that come out. pairs[k, m] is the row of the
input that tap k multiplies for row m of the output, or -1 for none (Graham et al., arXiv 1711.10275; Yan et al., SECOND).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trtsmith.importers.dims import gcd
from trtsmith.importers.opdef import Field, Fields, Kind, Port
from trtsmith.importers.ops._shared import faults_of_int32

BATCH_SIZE = Field("batch_size", Kind.INT, "images in the batch", minimum=1)
SPATIAL_SHAPE = Field("spatial_shape", Kind.INTS, "cells of the input: (z, y, x)", length=3, minimum=1)
KERNEL_SIZE = Field("kernel_size", Kind.INTS, "taps: (z, y, x)", length=3, minimum=1)
DILATION = Field("dilation", Kind.INTS, "(z, y, x)", length=3, default=(1, 1, 1), minimum=1)

INDICES = Port("indices", "S", 2, "[N, 4] (batch, z, y, x) of each row's cell")
PAIRS_DOC = "row of the input for each tap and row of the output, or -1"

MOST_CELLS = 2**34
"""Cells of all images of an output grid with strides, at most: a bit for each is in the kernel's workspace, 2 GiB."""

MOST_TAPS = 2**15
"""Taps of a kernel, at most."""

MOST_INPUT_CELLS = 2**62
"""Cells of all images of an input grid, at most, so that int64 numbers them."""


def taps(fields: Fields) -> int:
    return math.prod(fields["kernel_size"])


def output_shape(fields: Fields) -> tuple[int, ...]:
    """Computes the output's cells along (z, y, x), 0 where the kernel does not fit, as spconv's get_conv_output_size."""
    sizes = zip(
        fields["spatial_shape"],
        fields["kernel_size"],
        fields["stride"],
        fields["padding"],
        fields["dilation"],
        strict=True,
    )
    return tuple(
        max((cells + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1, 0)
        for cells, kernel, stride, padding, dilation in sizes
    )


def reached(fields: Fields) -> int:
    """Counts the cells of the output that one cell of the input reaches at most.

    Along an axis these are as many as taps whose distance from it is a multiple of the stride.
    """
    most = 1
    for kernel, stride, dilation in zip(
        fields["kernel_size"], fields["stride"], fields["dilation"], strict=True
    ):
        apart = stride // gcd(stride, dilation)
        most *= (kernel + apart - 1) // apart
    return most


def check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Checks that rows have four numbers, and that the kernel is not absurdly large."""
    faults = []
    if "indices" in shapes and shapes["indices"][1] not in (None, 4):
        faults.append(f"indices[1] = {shapes['indices'][1]}, not 4: (batch, z, y, x)")
    if taps(fields) > MOST_TAPS:
        faults.append(f"kernel_size = {fields['kernel_size']} has {taps(fields)} taps, more than {MOST_TAPS}")
    cells = fields["batch_size"] * math.prod(fields["spatial_shape"])
    if cells > MOST_INPUT_CELLS:
        faults.append(f"the input has {cells} cells, more than {MOST_INPUT_CELLS}")
    return faults + faults_of_int32(shapes, ("indices", 0))


def check_submanifold(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = check(fields, shapes)
    if any(size % 2 == 0 for size in fields["kernel_size"]):
        faults.append(f"kernel_size = {fields['kernel_size']} has no middle tap: its sizes must be odd")
    return faults


def check_strided(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = check(fields, shapes)
    cells = fields["batch_size"] * math.prod(output_shape(fields))
    if cells > MOST_CELLS:
        faults.append(f"the output has {cells} cells, more than {MOST_CELLS}")
    return faults


def numbers(kernel: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Lists (z, y, x) of the kernel's taps, in row-major order."""
    z, y, x = kernel
    return [(i, j, k) for i in range(z) for j in range(y) for k in range(x)]


def torch_key(place: list[Any], sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Returns each cell's number and whether it lies in the grid. Arguments are PyTorch tensors (batch, z, y, x)."""
    inside = (place[0] >= 0) & (place[0] < sizes[0])
    key = place[0]
    for coordinate, size in zip(place[1:], sizes[1:], strict=True):
        inside = inside & (coordinate >= 0) & (coordinate < size)
        key = key * size + coordinate
    return key, inside

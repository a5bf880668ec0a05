"""Counts taps and places of grouped deformable sampling, and checks its tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trtsmith.importers.dims import Unknown
from trtsmith.importers.opdef import Fields, Shapes, Work

LARGEST = 1 << 29
"""No side of the input, padding or reach of the kernel is larger: the kernel's places are 32-bit integers."""


def reach(fields: Fields, axis: int) -> int:
    """Pixels from the first tap to the last along the axis (0 height, 1 width), before offset_scale."""
    distance: int = fields["dilation"][axis] * (fields["kernel_shape"][axis] - 1)
    return distance


def taps(fields: Fields) -> list[tuple[int, int]]:
    """(row, column) of every tap in the order of offsets and mask: column by column, the centre left out or not."""
    height, width = fields["kernel_shape"]
    return [
        (row, column)
        for column in range(width)
        for row in range(height)
        if not (fields["remove_center"] and (row, column) == (height // 2, width // 2))
    ]


def _tap_count(fields: Fields) -> int:
    height, width = fields["kernel_shape"]
    count: int = height * width - fields["remove_center"]
    return count


def extent(fields: Fields, axis: int, size: Any) -> Any:
    """Output size along the axis: that of a convolution."""
    return (size + 2 * fields["padding"][axis] - reach(fields, axis) - 1) // fields["stride"][axis] + 1


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    """Height and width are those of `offset`, which keep their names where they are symbolic."""
    sides = []
    for axis in (0, 1):
        size = shapes["offset"][1 + axis]
        if isinstance(size, Unknown) and size.name is None:
            size = extent(fields, axis, shapes["x"][1 + axis])
        sides.append(size)
    return {"output": (shapes["x"][0], *sides, shapes["x"][3])}


def _field_faults(fields: Fields) -> list[str]:
    faults = []
    if fields["remove_center"]:
        if any(size % 2 == 0 for size in fields["kernel_shape"]):
            faults.append(
                "remove_center with kernel_shape = {} x {}: no tap is the centre".format(
                    *fields["kernel_shape"]
                )
            )
        elif _tap_count(fields) == 0:
            faults.append("remove_center with kernel_shape = 1 x 1: no tap is left")
    for axis, side in enumerate(("height", "width")):
        for what, size in (("padding", fields["padding"][axis]), ("kernel", reach(fields, axis))):
            if size > LARGEST:
                faults.append(f"the {side} of the {what} is {size}, more than {LARGEST}")
    return faults


def check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Batch, groups, taps and output size must agree between the inputs."""
    faults = _field_faults(fields)
    groups, count = fields["groups"], _tap_count(fields)

    def agree(port: str, axis: int, expected: int | None, because: str) -> None:
        have = shapes[port][axis] if port in shapes else None
        if None not in (have, expected) and have != expected:
            faults.append(f"{port}[{axis}] = {have}, not {expected} = {because}")

    x = shapes.get("x", (None,) * 4)
    if x[3] is not None and x[3] % groups:
        faults.append(f"groups = {groups} does not divide x[3] = {x[3]}")
    if "mask" in shapes:
        agree("offset", 3, 2 * groups * count, "2 * groups * taps")
        agree("mask", 3, groups * count, "groups * taps")
    elif "offset" in shapes and (last := shapes["offset"][3]) is not None and last < 3 * groups * count:
        faults.append(
            f"offset[3] = {last}, less than {3 * groups * count} = 3 * groups * taps, without a mask"
        )
    for port in ("offset", "mask"):
        agree(port, 0, x[0], "x[0]")
        for axis in (0, 1):
            size = x[1 + axis]
            if size is not None:
                agree(port, 1 + axis, extent(fields, axis, size), "the size of the output")
            elif port == "mask" and "offset" in shapes:
                agree(port, 1 + axis, shapes["offset"][1 + axis], f"offset[{1 + axis}]")
    for axis in (1, 2):
        side = x[axis]
        if side is not None and side > LARGEST:
            faults.append(f"x[{axis}] = {side}, more than {LARGEST}")
    return faults


def work(fields: Fields, shapes: Shapes) -> Work:
    """Four corners for each sample of a channel; and the position, fractions and shares of a group's sample."""
    samples = math.prod(shapes["output"][:3]) * len(taps(fields))
    return Work(flops=samples * (8 * shapes["output"][3] + 16 * fields["groups"]))

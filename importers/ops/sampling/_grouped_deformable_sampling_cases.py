"""Makes test inputs for grouped deformable sampling, and lists the sizes of networks that use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.dims import Unknown
from trtsmith.importers.opdef import Case, Fields, Shapes, Work
from trtsmith.importers.ops._deformable_conv_cases import drawn_offsets
from trtsmith.importers.ops._shared import size_faults

LARGEST = 1 << 29
"""No side of the input, padding or reach of the kernel is larger: the kernel's places are 32-bit integers."""


def reach(fields: Fields, axis: int) -> int:
    """Counts pixels from the first tap to the last along the axis (0 height, 1 width), before offset_scale."""
    distance: int = fields["dilation"][axis] * (fields["kernel_shape"][axis] - 1)
    return distance


def taps(fields: Fields) -> list[tuple[int, int]]:
    """Lists (row, column) of every tap in the order of offsets and mask: column by column, with or without the centre."""
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
    """Computes the output size along the axis, as of a convolution."""
    return (size + 2 * fields["padding"][axis] - reach(fields, axis) - 1) // fields["stride"][axis] + 1


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    """Takes height and width from `offset`, whose symbolic names stay."""
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
    """Checks that batch, groups, taps and output size agree between the inputs."""
    faults = _field_faults(fields)
    groups, count = fields["groups"], _tap_count(fields)

    def agree(*rule: Any) -> None:
        faults.extend(size_faults(shapes, rule))

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
    """Counts four corners for each sample of a channel, and the position and weights of each group's sample."""
    samples = math.prod(shapes["output"][:3]) * len(taps(fields))
    return Work(flops=samples * (8 * shapes["output"][3] + 16 * fields["groups"]))


_DEFAULTS: dict[str, Any] = {
    "kernel_shape": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
    "dilation": (1, 1),
    "groups": 1,
    "offset_scale": 1.0,
    "remove_center": 0,
}


def _case(
    name: str,
    x: tuple[int, int, int, int],
    groups: int,
    *,
    offsets: str = "near",
    together: bool = False,
    large: bool = False,
    **given: Any,
) -> Case:
    """x: [N, H, W, C]. together: mask in the tensor of the offsets, with a softmax or not, up to a multiple of 8."""
    fields = _DEFAULTS | {"groups": groups} | given
    count = len(taps(fields))

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        places = (x[0], extent(fields, 0, x[1]), extent(fields, 1, x[2]))
        values = rng.normal(size=x)
        moved = drawn_offsets(offsets, rng, (*places, groups, 2 * count))
        if not together:
            weights = np.exp(rng.normal(size=(*places, groups, count)))
            weights /= weights.sum(axis=-1, keepdims=True)
            flat = (*places, groups * count)
            return {
                "x": values,
                "offset": moved.reshape(*places, groups * count * 2),
                "mask": weights.reshape(flat),
            }
        both = np.concatenate([moved, rng.normal(size=(*places, groups, count))], axis=-1)
        both = both.reshape(*places, groups * count * 3)
        filling = rng.normal(size=(*places, -both.shape[-1] % 8))
        return {"x": values, "offset": np.concatenate([both, filling], axis=-1)}

    return Case(name, fields, make, large)


BENCHMARKS = (
    # The first three stages of InternImage-T and of FlashInternImage-T at 224 x 224, eight images.
    _case("dcnv3_56x56x64", (8, 56, 56, 64), 4, large=True),
    _case("dcnv3_28x28x128", (8, 28, 28, 128), 8, large=True),
    _case("dcnv3_14x14x256", (8, 14, 14, 256), 16, large=True),
    _case("dcnv4_56x56x64", (8, 56, 56, 64), 4, together=True, large=True),
    _case("dcnv4_28x28x128", (8, 28, 28, 128), 8, together=True, large=True),
    _case("dcnv4_14x14x256", (8, 14, 14, 256), 16, together=True, large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1, kernel_shape=(1, 1), padding=(0, 0)),
    _case("stage", (2, 7, 6, 32), 2),
    _case("stage_together", (2, 7, 6, 32), 2, together=True),
    _case("stage_three_groups_together", (2, 5, 6, 48), 3, together=True),
    _case("no_centre", (2, 7, 6, 32), 2, remove_center=1),
    _case("no_centre_together", (2, 7, 6, 32), 2, remove_center=1, together=True),
    _case("no_centre_scaled", (1, 6, 7, 16), 1, remove_center=1, offset_scale=2.0),
    _case("scaled", (1, 6, 7, 16), 1, offset_scale=0.5),
    _case("strided", (2, 13, 10, 32), 2, stride=(2, 3)),
    _case("dilated", (1, 13, 15, 16), 1, dilation=(2, 3), padding=(2, 3), offset_scale=1.5),
    _case("kernel_5x5_together", (1, 9, 8, 32), 2, kernel_shape=(5, 5), padding=(2, 2), together=True),
    _case("kernel_5x3_no_centre", (1, 9, 8, 16), 1, kernel_shape=(5, 3), padding=(2, 1), remove_center=1),
    _case("kernel_2x4_even", (1, 9, 8, 16), 1, kernel_shape=(2, 4), padding=(1, 2), offset_scale=0.75),
    _case("no_padding", (1, 9, 8, 16), 2, padding=(0, 0)),
    _case("much_padding", (1, 3, 4, 16), 2, padding=(4, 5)),
    _case("two_by_two", (3, 2, 2, 16), 2),
    _case("one_row", (1, 1, 13, 16), 2),
    _case("one_column", (1, 13, 1, 16), 2, together=True),
    _case("one_channel_a_group", (2, 6, 7, 5), 5),
    _case("one_channel_a_group_together", (2, 6, 7, 5), 5, together=True, remove_center=1),
    _case("odd", (2, 7, 11, 21), 3, stride=(2, 1)),
    _case("odd_groups_of_vectors", (1, 6, 7, 72), 3),
    _case("odd_groups_of_vectors_no_centre", (1, 6, 7, 72), 3, remove_center=1),
    _case("wide_groups", (1, 5, 6, 136), 1),
    _case("many_groups", (1, 5, 6, 160), 20, together=True),
    _case("whole_pixels", (1, 7, 6, 16), 2, offsets="lattice"),
    _case("whole_pixels_odd", (1, 7, 6, 3), 1, offsets="lattice"),
    _case("far_outside", (1, 7, 6, 16), 2, offsets="far"),
    _case("far_outside_together", (1, 7, 6, 16), 2, offsets="far", together=True),
    _case("nan_and_huge_offsets", (2, 7, 6, 32), 2, offsets="strange"),
    _case("nan_and_huge_offsets_odd", (2, 7, 6, 6), 2, offsets="strange", remove_center=1),
    _case("nan_and_huge_offsets_together", (2, 7, 6, 16), 2, offsets="strange", together=True),
    # More than one tile of pixels, and all, several or a part of the 128 bytes of channels that the kernel takes at a time.
    _case("tiles", (2, 17, 19, 64), 4),
    _case("tiles_together", (1, 17, 19, 80), 5, together=True),
    _case("tiles_no_centre", (1, 18, 11, 128), 8, remove_center=1),
    _case("tiles_strided_together", (1, 21, 19, 64), 4, stride=(2, 1), together=True),
    _case("tiles_wide_groups", (1, 9, 17, 256), 2),
    _case("tiles_far_outside", (1, 17, 19, 64), 4, offsets="far"),
    _case("large_tiles", (8, 45, 51, 64), 4, large=True),
    _case(
        "large_tiles_nan_and_huge_offsets_together",
        (8, 25, 51, 80),
        5,
        offsets="strange",
        together=True,
        large=True,
    ),
    _case("tiles_nan_and_huge_offsets_together", (1, 12, 19, 64), 4, offsets="strange", together=True),
    _case("no_batch", (0, 7, 6, 16), 2),
    _case("no_batch_odd", (0, 7, 6, 3), 1, together=True),
    *BENCHMARKS,
)

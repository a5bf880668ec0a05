"""Makes test inputs of the correlation of patches, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers

Made = dict[str, np.ndarray]
Pair = tuple[int, int]

ONE: Fields = {
    "max_displacement": 1,
    "kernel_size": (1, 1),
    "stride": (1, 1),
    "padding": (0, 0),
    "dilation": (1, 1),
    "dilation_patch": (1, 1),
}


def _strange(_rng: np.random.Generator, made: Made) -> None:
    """Infinite and NaN where no pair of pixels lies inside: corners whose partners are all outside."""
    made["first"][:, :, 0, 0] = np.inf
    made["second"][:, :, -1, -1] = np.nan


def _case(
    name: str,
    x: tuple[int, int, int, int],
    displacement: int = 1,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    fields: dict[str, Pair] | None = None,
    **marks: bool,
) -> Case:
    known = {**ONE, "max_displacement": displacement, **(fields or {})}

    def make(rng: np.random.Generator) -> Made:
        made = {"first": rng.normal(size=x), "second": rng.normal(size=x)}
        if change is not None:
            change(rng, made)
        return made

    return Case(name, known, make, **marks)


def _both(**fields: int) -> dict[str, Pair]:
    """Fields alike for height and width."""
    return {name: (value, value) for name, value in fields.items()}


BENCHMARKS = (
    # FlowNetC for images of 384 x 512; PWC-Net's levels 3 and 2 for 448 x 1024.
    _case("flownet_c", (1, 256, 48, 64), 10, fields=_both(dilation_patch=2), large=True),
    _case("pwc_net_level_3", (1, 64, 56, 128), 4, large=True),
    _case("pwc_net_level_2", (1, 32, 112, 256), 4, large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 0),
    _case("neighbours", (2, 8, 5, 6)),
    _case("odd_channels", (2, 13, 5, 7), 2),
    _case("as_pwc_net_has_it", (1, 32, 6, 20), 4),
    _case("as_flownet_has_it", (1, 64, 6, 37), 10, fields=_both(dilation_patch=2)),
    _case("kernel_3", (1, 8, 6, 7), 2, fields=_both(kernel_size=3, padding=1)),
    _case("kernel_2x3_dilated", (2, 16, 8, 9), 1, fields={"kernel_size": (2, 3), "dilation": (2, 3)}),
    _case("strided", (2, 16, 7, 9), 2, fields=_both(stride=2, padding=2)),
    _case("strided_unequally", (1, 16, 7, 20), 2, fields={"stride": (2, 3), "dilation_patch": (3, 2)}),
    _case("steps_as_wide_as_strides", (1, 24, 7, 40), 3, fields=_both(stride=2, dilation_patch=2)),
    _case("wide_steps", (1, 16, 5, 30), 2, fields=_both(dilation_patch=4)),
    _case("wider_steps", (1, 16, 5, 30), 2, fields=_both(dilation_patch=5)),
    _case("much_padding", (1, 16, 3, 4), 1, fields=_both(padding=3)),
    _case("farther_than_the_map", (1, 8, 3, 4), 6, fields={"dilation_patch": (2, 2)}),
    _case("more_channels_than_a_step", (1, 72, 3, 18), 1),
    _case("strange_numbers_outside", (1, 16, 4, 5), 1, _strange, {"stride": (3, 4), "padding": (2, 2)}),
    _case("no_channels", (2, 0, 4, 5)),
    _case("no_batch", (0, 8, 4, 5)),
    _case("tiles", (2, 72, 9, 70), 4, large=True, tiles=True),
    _case(
        "tiles_of_kernels", (1, 20, 9, 70), 5, None, _both(kernel_size=3, padding=1), large=True, tiles=True
    ),
    *BENCHMARKS,
)


def huge(reference: Callable[[Fields, Arrays], dict[str, np.ndarray]]) -> HugeCase:
    """Sixteen channels, nine displacements: with sides of 11,600, the two inputs have 2.15e9 elements each."""

    def make(side: int, device: str) -> Huge:
        import torch

        shape = (1, 16, side, side)
        inputs = {
            name: torch.randn(shape, device=device, dtype=torch.float16) for name in ("first", "second")
        }

        def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
            """The reference on a crop of both corners, but for the crop's inner ends."""
            results = []
            for place, part, inner in (
                ("near corner", slice(0, 48), slice(0, 47)),
                ("far corner", slice(side - 48, side), slice(1, 48)),
            ):
                arrays = {name: numbers(tensor[:, :, part, part]) for name, tensor in inputs.items()}
                found = numbers(outputs[0][..., part, part])[..., inner, inner]
                results.append((place, found, reference(ONE, arrays)["output"][..., inner, inner]))
            return results

        return Huge(ONE, inputs, check)

    return HugeCase(make, size=11_600, small=100)

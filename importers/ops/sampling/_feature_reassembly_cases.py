"""Makes test inputs of the content-aware reassembly of features, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers

Made = dict[str, np.ndarray]


def _fields(kernel: int, groups: int, scale: int) -> Fields:
    return {"kernel_size": kernel, "groups": groups, "scale_factor": scale}


def _inputs(rng: np.random.Generator, x: tuple[int, int, int, int], fields: Fields) -> Made:
    """Masks are shares, as a softmax gives them."""
    groups, scale = fields["groups"], fields["scale_factor"]
    taps = fields["kernel_size"] ** 2
    scores = np.exp(rng.normal(size=(x[0], groups, taps, x[2] * scale, x[3] * scale)))
    masks = scores / scores.sum(2, keepdims=True)
    return {"x": rng.normal(size=x), "masks": masks.reshape(x[0], groups * taps, *masks.shape[3:])}


def _strange_outside(rng: np.random.Generator, made: Made, fields: Fields) -> None:
    """Masks of taps above the map are NaN and infinite, as they are not read."""
    kernel, scale = fields["kernel_size"], fields["scale_factor"]
    taps = made["masks"].reshape(
        len(made["masks"]), fields["groups"], kernel, kernel, *made["masks"].shape[2:]
    )
    taps[:, :, 0, :, : kernel // 2 * scale] = np.nan
    taps[:, :, :, -1, :, -scale:] = np.inf


def _case(
    name: str,
    x: tuple[int, int, int, int],
    fields: tuple[int, int, int] = (5, 1, 2),
    change: Callable[[np.random.Generator, Made, Fields], None] | None = None,
    **marks: bool,
) -> Case:
    known = _fields(*fields)

    def make(rng: np.random.Generator) -> Made:
        made = _inputs(rng, x, known)
        if change is not None:
            change(rng, made, known)
        return made

    return Case(name, known, make, **marks)


BENCHMARKS = (
    # The three maps that a feature pyramid with CARAFE enlarges, for images of 800 x 1216.
    _case("pyramid_100x152", (1, 256, 100, 152), large=True),
    _case("pyramid_50x76", (1, 256, 50, 76), large=True),
    _case("pyramid_25x38", (1, 256, 25, 38), large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), (1, 1, 1)),
    _case("as_networks_have_it", (2, 64, 6, 9)),
    _case("odd_channels", (2, 13, 5, 7)),
    _case("kernel_3", (1, 8, 5, 7), (3, 1, 2)),
    _case("kernel_7", (1, 16, 4, 5), (7, 1, 2)),
    _case("kernel_larger_than_the_map", (1, 8, 2, 3), (5, 1, 2)),
    _case("same_size", (2, 16, 5, 7), (5, 1, 1)),
    _case("scale_3", (1, 16, 4, 5), (3, 1, 3)),
    _case("scale_4", (1, 16, 4, 5), (3, 1, 4)),
    _case("scale_6", (1, 8, 3, 4), (3, 1, 6)),
    _case("groups", (2, 32, 4, 5), (3, 2, 2)),
    _case("groups_of_odd_channels", (2, 15, 4, 5), (3, 3, 2)),
    _case("one_channel_a_group", (1, 6, 4, 5), (3, 6, 2)),
    _case("more_channels_than_a_slice", (1, 88, 3, 5), (3, 1, 2)),
    _case("wider_than_a_tile", (1, 8, 2, 37), (3, 1, 2)),
    _case("strange_masks_outside", (2, 16, 4, 5), (3, 1, 2), _strange_outside),
    _case("strange_masks_outside_groups_of_odd_channels", (2, 6, 4, 5), (3, 2, 2), _strange_outside),
    _case("no_channels", (2, 0, 4, 5)),
    _case("no_rows", (2, 8, 0, 5)),
    _case("no_batch", (0, 8, 4, 5)),
    _case("tiles", (2, 136, 9, 70), large=True, tiles=True),
    _case("tiles_of_groups", (1, 144, 9, 40), (3, 2, 4), large=True, tiles=True),
    *BENCHMARKS,
)


def huge(reference: Callable[[Fields, Arrays], dict[str, np.ndarray]]) -> HugeCase:
    """Eight channels, one tap, the same size: with sides of 16,500, x and the output have 2.18e9 elements each."""
    fields = _fields(1, 1, 1)

    def make(side: int, device: str) -> Huge:
        import torch

        half: dict[str, Any] = {"device": device, "dtype": torch.float16}
        inputs = {"x": torch.randn(1, 8, side, side, **half), "masks": torch.rand(1, 1, side, side, **half)}

        def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
            results = []
            for place, part in (("near corner", slice(0, 64)), ("far corner", slice(side - 64, side))):
                arrays = {name: numbers(tensor[:, :, part, part]) for name, tensor in inputs.items()}
                found = numbers(outputs[0][:, :, part, part])
                results.append((place, found, reference(fields, arrays)["output"]))
            return results

        return Huge(fields, inputs, check)

    return HugeCase(make, size=16_500, small=150)

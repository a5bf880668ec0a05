"""Sampling in volumes. The oracle weights every voxel for every point by the distance between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.opdef import Case

SAMPLING = "VolumeSampling"


def _inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(11)
    return {
        "x": rng.normal(size=(2, 5, 4, 6, 7)).astype(np.float32),
        "grid": rng.uniform(-1.3, 1.3, (2, 5, 4, 6, 3)).astype(np.float32),
    }


def _hats(inputs: Arrays) -> np.ndarray:
    """Linear, zeros beyond, ends of the volume at -1 and 1."""
    x, grid = (inputs[name].astype(np.float64) for name in ("x", "grid"))
    shares = []
    for axis, size in enumerate(x.shape[2:]):
        at = ((grid[..., 2 - axis] + 1) * size - 1) / 2
        shares.append(np.maximum(0, 1 - np.abs(at[..., None] - np.arange(size))))
    result: np.ndarray = np.einsum("ncxyz,nabdx,nabdy,nabdz->ncabd", x, *shares)
    return result


def standard_attributes(case: Case) -> dict[str, Any] | None:
    """The attributes of ONNX's operator; None for places on which it says nothing."""
    if case.name.startswith("strange"):
        return None
    return {
        "mode": ("linear", "nearest")[case.fields["interpolation"]],
        "padding_mode": ("zeros", "border", "reflection")[case.fields["padding"]],
        "align_corners": case.fields["align_corners"],
    }


FIELDS = {"interpolation": 0, "padding": 0, "align_corners": 0}

EXAMPLES = (Example(SAMPLING, SAMPLING, "trtsmith", FIELDS, _inputs, _hats),)

SHAPES = {"x": (2, 5, 4, 6, 7), "grid": (2, 5, 4, 6, 3)}

INCONSISTENT = (
    Inconsistent(SAMPLING, SHAPES, {"grid": (1, 5, 4, 6, 3)}, "grid[0] = 1, but x[0] = 2", FIELDS),
    Inconsistent(SAMPLING, SHAPES, {"grid": (2, 5, 4, 6, 2)}, "grid[4] = 2, not 3", FIELDS),
    Inconsistent(SAMPLING, SHAPES, {"x": (2, 5, 0, 6, 7)}, "x[2] = 0: there is nothing to sample", FIELDS),
)


def huge(side: int, device: str) -> Huge:
    """Eight channels and as many points as voxels: with sides of 647, x and the output have 2.17e9 elements each.

    Points lie outside but for a few, which lie on corners of the volume and in its middle: float16 holds these exactly.
    """
    import torch

    fields = {"interpolation": 1, "padding": 0, "align_corners": 1}
    side = side // 2 * 2 + 1  # so that 0 is the middle of a voxel
    half: dict[str, Any] = {"device": device, "dtype": torch.float16}
    x = torch.randn(1, 8, side, side, side, **half)
    grid = torch.full((1, side, side, side, 3), 4.0, **half)
    last = side - 1
    places = [(0, 0, 0), (side // 2, 1, 2), (last, last, last), (last, last, last - 1)]
    targets = [(1.0, 1.0, 1.0), (0.0, 0.0, 1.0), (-1.0, -1.0, -1.0), (0.0, 1.0, 1.0)]
    for place, target in zip(places, targets, strict=True):
        grid[0][place] = torch.tensor(target, **half)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for (slab, row, column), target in zip(places, targets, strict=True):
            x_at, y_at, z_at = (round((c + 1) / 2 * last) for c in target)
            found = numbers(outputs[0][0, :, slab, row, column])
            results.append((f"point {slab}, {row}, {column}", found, numbers(x[0, :, z_at, y_at, x_at])))
        beside = numbers(outputs[0][0, :, last, last, side - 30 : last - 1])
        results.append(("points outside", beside + 1, np.ones(beside.shape)))
        return results

    return Huge(fields, {"x": x, "grid": grid}, check)


HUGE = HugeCase(huge, size=647, small=41)

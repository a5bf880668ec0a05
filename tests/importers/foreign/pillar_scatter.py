"""The scatter of pillars into their grid, as in NVIDIA's plugin."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers

SCATTER = "PillarScatter"
HEIGHT, WIDTH = 5, 7


def inputs() -> dict[str, np.ndarray | None]:
    """Two frames of 9 and 6 pillars; every frame's first coordinates are zero, as VoxelGeneratorPlugin writes them."""
    rng = np.random.default_rng(3)
    coords = np.zeros((2, 9, 4), np.int32)
    for frame in coords:
        frame[:, 2:] = np.stack(np.divmod(rng.permutation(HEIGHT * WIDTH)[:9], WIDTH), axis=-1)
    return {
        "features": rng.normal(size=(2, 9, 6)).astype(np.float32),
        "coords": coords,
        "counts": np.array([9, 6], np.int32),
    }


def oracle(arrays: Arrays) -> np.ndarray:
    features = arrays["features"].astype(np.float64)
    output = np.zeros((2, HEIGHT, WIDTH, features.shape[2]))
    for frame, count in enumerate(arrays["counts"]):
        rows, columns = arrays["coords"][frame, :count, 2:].T
        output[frame, rows, columns] = features[frame, :count]
    return output.transpose(0, 3, 1, 2)


FIELDS = {"output_height": HEIGHT, "output_width": WIDTH}

EXAMPLES = (
    Example(SCATTER, "PillarScatterPlugin", "TRT", {"dense_shape": [HEIGHT, WIDTH]}, inputs, oracle),
    Example(SCATTER, SCATTER, "trtsmith", FIELDS, inputs, oracle),
)

SHAPES = {"features": (2, 9, 6), "coords": (2, 9, 4), "counts": (2,)}

INCONSISTENT = (
    Inconsistent(SCATTER, SHAPES, {"coords": (2, 8, 4)}, "coords[1] = 8, but features[1] = 9", FIELDS),
    Inconsistent(SCATTER, SHAPES, {"coords": (2, 9, 3)}, "coords[2] = 3, not 4", FIELDS),
    Inconsistent(SCATTER, SHAPES, {"counts": (1,)}, "counts[0] = 1, but features[0] = 2", FIELDS),
)


def huge(side: int, device: str) -> Huge:
    """Two channels: with a side of 33,000, the output has 2.18e9 elements."""
    import torch

    places = torch.tensor([[0, 0], [side // 2, 1], [side - 1, side - 1]], device=device, dtype=torch.int32)
    features = torch.randn(1, 3, 2, device=device, dtype=torch.float16)
    coords = torch.cat([torch.zeros_like(places), places], 1)[None]
    counts = torch.tensor([3], device=device, dtype=torch.int32)
    fields = {"output_height": side, "output_width": side}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output = outputs[0][0]
        results = [
            (f"pillar {i}", numbers(output[:, row, column]), numbers(features[0, i]))
            for i, (row, column) in enumerate(places.tolist())
        ]
        last = np.zeros((2, 64))
        last[:, -1] = numbers(features[0, 2])
        results.append(("last cells", numbers(output[:, side - 1, side - 64 :]), last))
        return results

    return Huge(fields, {"features": features, "coords": coords, "counts": counts}, check)


HUGE = HugeCase(huge, size=33_000, small=150)

"""Correlation look-ups of RAFT-Stereo and DROID-SLAM. The oracle takes every pixel's share from its distance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

LOOKUP = "CorrelationLookup"
RADIUS = 2


def inputs(*volume: int, axes: int = 2) -> Callable[[], dict[str, np.ndarray | None]]:
    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(43)
        places = rng.uniform(-4, max(volume[3:]) + 4, (volume[0], axes, *volume[1:3]))
        return {
            "volume": rng.uniform(-1, 1, volume).astype(np.float32),
            "places": places.astype(np.float32),
        }

    return make


def looked_up(arrays: Arrays) -> np.ndarray:
    volume, places = arrays["volume"].astype(np.float64), arrays["places"].astype(np.float64)
    steps = np.arange(-RADIUS, RADIUS + 1)[:, None]
    shares = [  # [N, H, W, samples, pixels] along x, and along y
        np.maximum(0, 1 - np.abs(places[:, axis, :, :, None, None] + steps - np.arange(size)))
        for axis, size in enumerate(volume.shape[:2:-1])
    ]
    if volume.ndim == 4:
        return np.asarray(np.einsum("nhwx,nhwix->nihw", volume, *shares))
    return np.asarray(np.einsum("nhwyx,nhwix,nhwjy->nijhw", volume, *shares))


FIELDS = {"radius": RADIUS}
LINES = inputs(2, 3, 4, 7, axes=1)

EXAMPLES = (
    Example(LOOKUP, "CorrSampler", "corr_sampler", FIELDS, LINES, looked_up),
    Example(LOOKUP, "CorrSampler", "corr_sampler", FIELDS, inputs(1, 2, 3, 5), looked_up, note="two axes"),
    Example(LOOKUP, "CorrSampler", "droid_backends", FIELDS, inputs(2, 3, 2, 4, 7), looked_up),
    Example(LOOKUP, LOOKUP, "trtsmith", FIELDS, LINES, looked_up),
)

SHAPES = {"volume": (2, 3, 4, 5, 6), "places": (2, 2, 3, 4)}

INCONSISTENT = (
    *(
        Inconsistent(LOOKUP, SHAPES, change, message, FIELDS)
        for change, message in (
            ({"places": (1, 2, 3, 4)}, "places[0] = 1, not 2"),
            ({"places": (2, 1, 3, 4)}, "places[1] = 1, not 2"),
            ({"places": (2, 2, 3, 5)}, "places[3] = 5, not 4"),
            ({"volume": (2, 3, 4)}, "volume has 3 dimensions, not 4 or 5"),
            ({"volume": (2, 3, 4, 0, 6)}, "volume[3] = 0, not from 1 to 2^23"),
        )
    ),
    Inconsistent(LOOKUP, SHAPES, {}, "radius = 33, more than 32", FIELDS, {"radius": 33}),
)


HUGE = "windows are read by 64-bit addresses: RoI align's case stands for those"

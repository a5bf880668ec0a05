"""Makes test inputs of the convolution along a rulebook, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Huge, HugeCase
from trtsmith.importers.ops._huge import SAMPLED, numbers
from trtsmith.importers.ops.sparse._scans import neighbours, scan

Made = dict[str, np.ndarray]
Three = tuple[int, int, int]


def _pairs(rng: np.random.Generator, taps: int, rows: int, inputs: int, share: float) -> np.ndarray:
    """A share of all pairs, each any row."""
    pairs = rng.integers(0, max(inputs, 1), (taps, rows))
    return np.where((rng.random((taps, rows)) < share) & (inputs > 0), pairs, -1)


def _scanned(rng: np.random.Generator, taps: int, rows: int, inputs: int, share: float) -> np.ndarray:
    """Inputs of a submanifold convolution over a scan, its rows in order, or in any order where the share is 0."""
    side = 8 * int(np.sqrt(rows)) + 16
    grid = (1, 21, side, side)
    cells = scan(rng, rows, grid)
    size = round(taps ** (1 / 3))
    return neighbours(cells if share else rng.permutation(cells), grid, (size, size, size))


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Pairs that are no rows of the features."""
    pairs = made["pairs"]
    chosen = rng.random(pairs.shape) < 0.2
    far = np.array([-2, len(made["features"]), 2**31 - 1, -(2**31)])
    pairs[chosen] = rng.choice(far, chosen.sum())


def _some_taps(_rng: np.random.Generator, made: Made) -> None:
    """Taps that no row has, and rows that have none."""
    made["pairs"][::2] = -1
    made["pairs"][:, 5:40] = -1


def _no_pairs(_rng: np.random.Generator, made: Made) -> None:
    made["pairs"][:] = -1


def _steps(_rng: np.random.Generator, made: Made) -> None:
    """A single row that every tap of every row reads."""
    made["pairs"][:] = len(made["features"]) - 1


def _case(
    name: str,
    sizes: tuple[int, int, int, int],
    kernel: Three = (3, 3, 3),
    share: float = 0.4,
    *,
    bias: bool = True,
    activation: int = 0,
    slope: float = 0.0,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    make: Callable[[np.random.Generator, int, int, int, float], np.ndarray] = _pairs,
    **marks: bool,
) -> Case:
    """sizes: rows and channels of the features, rows and channels of the output."""
    inputs, channels, rows, filters = sizes

    def arrays(rng: np.random.Generator) -> Made:
        taps = int(np.prod(kernel))
        made = {
            "features": rng.normal(size=(inputs, channels)),
            "weights": rng.normal(size=(filters, *kernel, channels)),
            "pairs": make(rng, taps, rows, inputs, share),
        }
        if bias:
            made["bias"] = rng.normal(size=filters)
        if change is not None:
            change(rng, made)
        return made

    return Case(name, {"activation": activation, "slope": slope}, arrays, **marks)


BENCHMARKS = (
    # CenterPoint and BEVFusion on nuScenes: submanifold layers of each stage, then the layer with strides between two.
    _case("nuscenes_64_64", (100_000, 64, 100_000, 64), bias=False, make=_scanned, large=True),
    _case(
        "nuscenes_64_64_any_order",
        (100_000, 64, 100_000, 64),
        share=0.0,
        bias=False,
        make=_scanned,
        large=True,
    ),
    _case("nuscenes_16_16", (100_000, 16, 100_000, 16), bias=False, make=_scanned, large=True),
    _case("nuscenes_32_32", (60_000, 32, 60_000, 32), bias=False, make=_scanned, large=True),
    _case("nuscenes_128_128", (30_000, 128, 30_000, 128), bias=False, make=_scanned, large=True),
    _case("nuscenes_down_32_64", (60_000, 32, 70_000, 64), share=0.15, bias=False, large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), (1, 1, 1), share=1.0),
    _case("few_channels", (40, 3, 50, 5)),
    _case("points_of_4", (60, 4, 60, 16), bias=False),
    _case("sixteen", (150, 16, 140, 16)),
    _case("units_that_cross_steps", (70, 24, 90, 40)),
    _case("odd_units", (70, 40, 66, 24), (1, 3, 3)),
    _case("odd_channels", (50, 67, 45, 33)),
    _case("two_tiles_of_filters", (60, 8, 150, 70), (1, 2, 3)),
    _case("wide", (40, 136, 50, 200), (2, 1, 1), share=0.8),
    _case("as_networks_have_it", (300, 64, 300, 64), make=_scanned),
    _case("many_taps", (60, 8, 70, 8), (5, 5, 5)),
    _case("strange_pairs", (50, 16, 60, 12), change=_strange),
    _case("taps_and_rows_without_pairs", (50, 32, 170, 20), change=_some_taps),
    _case("nothing_but_bias", (30, 8, 40, 8), change=_no_pairs),
    _case("one_row_for_all", (30, 8, 40, 8), change=_steps),
    _case("relu", (50, 16, 60, 12), activation=1),
    _case("sigmoid", (50, 4, 60, 12), (1, 1, 3), activation=2),
    _case("leaky_relu", (50, 16, 60, 12), activation=3, slope=0.125),
    _case("no_features", (0, 8, 20, 8)),
    _case("no_rows", (20, 8, 0, 8)),
    _case("no_channels", (20, 0, 20, 8)),
    _case("no_filters", (20, 8, 20, 0)),
    _case("tiles", (5200, 64, 5200, 72), make=_scanned, large=True, tiles=True),
    *BENCHMARKS,
)


def _huge(rows: int, device: str) -> Huge:
    """64 channels in and out of one tap: with 34 million rows, features and output have 2.18e9 elements each."""
    import torch

    channels = 64
    features = torch.randn(rows, channels, device=device, dtype=torch.float16)
    weights = torch.randn(channels, 1, 1, 1, channels, device=device, dtype=torch.float16)
    pairs = torch.arange(rows - 1, -1, -1, device=device, dtype=torch.int32)[None]

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output = outputs[0]
        matrix = numbers(weights).reshape(channels, channels)
        results = []
        for name, start in (("first", 0), ("middle", rows // 2), ("last", rows - SAMPLED)):
            read = torch.arange(start, start + SAMPLED, device=device)
            wanted = numbers(features[rows - 1 - read]) @ matrix.T
            results.append((f"{name} rows", numbers(output[read]), wanted))
        return results

    return Huge(
        {"activation": 0, "slope": 0.0}, {"features": features, "weights": weights, "pairs": pairs}, check
    )


HUGE = HugeCase(_huge, size=34_000_000, small=300)

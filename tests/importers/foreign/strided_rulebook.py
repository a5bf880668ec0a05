"""The rulebook of a strided sparse convolution, as in Autoware's plugin."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._sparse import GRID, autoware, cells, masks, strided
from tests.importers.foreign.model import Arrays, Example, Inconsistent, Largest

RULEBOOK = "StridedRulebook"
KERNEL, STRIDE, PADDING, DILATION = (3, 3, 2), (2, 2, 1), (1, 0, 1), (1, 2, 1)
OUT = (3, 1, 8)

AUTOWARE = autoware(KERNEL, DILATION, stride=list(STRIDE), padding=list(PADDING), subm=0)


def _ours(arrays: Arrays) -> tuple[np.ndarray, ...]:
    found, pairs = strided(arrays, KERNEL, DILATION, STRIDE, PADDING, OUT)
    return found, pairs, np.array(len(found))


def _autoware(arrays: Arrays) -> tuple[np.ndarray, ...]:
    """In the order of cells: spconv's own differs from run to run."""
    found, pairs, count = _ours(arrays)
    return found, pairs, masks(pairs), np.arange(len(found)), count


FIELDS = {
    "batch_size": GRID[0],
    "spatial_shape": list(GRID[1:]),
    "kernel_size": list(KERNEL),
    "stride": list(STRIDE),
    "padding": list(PADDING),
    "dilation": list(DILATION),
    "limit": 0,
}

EXAMPLES = (
    Example(RULEBOOK, "GetIndicePairsImplicitGemm", "autoware", AUTOWARE, cells, _autoware, types=("S",) * 5),
    Example(RULEBOOK, RULEBOOK, "trtsmith", FIELDS, cells, _ours),
)

SHAPES = {"indices": (40, 4)}
_LARGE = {"spatial_shape": [4096, 4096, 4096], "stride": [1, 1, 1], "padding": [1, 2, 1]}
INCONSISTENT = (
    Inconsistent(RULEBOOK, SHAPES, {"indices": (40, 5)}, "indices[1] = 5, not 4", FIELDS),
    Inconsistent(RULEBOOK, SHAPES, {}, "the output has 137472507904 cells", FIELDS, _LARGE),
)

_GRID = {"batch_size": 4, "spatial_shape": (1024, 1024, 1024)}
_ONE = dict.fromkeys(("kernel_size", "stride", "dilation"), (1, 1, 1))
LARGEST = (
    Largest(RULEBOOK, {**_GRID, **_ONE, "padding": (0, 0, 0), "limit": 0}, (("int32", (Largest.SIZE, 4)),)),
)


HUGE = "a size tensor may not hold 2^31 rows, and more pairs of fewer rows differ in nothing but the size of the table"

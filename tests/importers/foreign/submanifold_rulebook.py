"""The rulebook of a submanifold convolution, as in Autoware's plugin."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._sparse import GRID, ROWS, autoware, cells, masks, submanifold
from tests.importers.foreign.model import Arrays, Example, Inconsistent

RULEBOOK = "SubmanifoldRulebook"
KERNEL, DILATION = (3, 1, 5), (1, 1, 2)

AUTOWARE = autoware(KERNEL, DILATION)


def _autoware(arrays: Arrays) -> tuple[np.ndarray, ...]:
    pairs = submanifold(arrays, KERNEL, DILATION)
    return arrays["indices"], pairs, masks(pairs), np.arange(ROWS), np.array(ROWS)


NATIVE = {name: value for name, value in AUTOWARE.items() if name != "is_train"} | {"algo": 0}


def _native(arrays: Arrays) -> tuple[np.ndarray, ...]:
    pairs = submanifold(arrays, KERNEL, DILATION)
    both = np.stack([pairs, np.where(pairs < 0, -1, np.arange(ROWS))])
    return arrays["indices"], both, (pairs >= 0).sum(1), np.array(ROWS)


FIELDS = {
    "batch_size": GRID[0],
    "spatial_shape": list(GRID[1:]),
    "kernel_size": list(KERNEL),
    "dilation": list(DILATION),
}

EXAMPLES = (
    Example(RULEBOOK, "GetIndicePairsImplicitGemm", "autoware", AUTOWARE, cells, _autoware, types=("S",) * 5),
    Example(RULEBOOK, "GetIndicePairs", "autoware", NATIVE, cells, _native, types=("S",) * 4),
    Example(RULEBOOK, RULEBOOK, "trtsmith", FIELDS, cells, lambda a: submanifold(a, KERNEL, DILATION)),
)

SHAPES = {"indices": (40, 4)}
_MANY = [33, 33, 33]
INCONSISTENT = (
    Inconsistent(RULEBOOK, SHAPES, {"indices": (40, 3)}, "indices[1] = 3, not 4", FIELDS),
    Inconsistent(RULEBOOK, SHAPES, {}, "has no middle tap", FIELDS, {"kernel_size": [3, 2, 3]}),
    Inconsistent(
        RULEBOOK,
        SHAPES,
        {},
        "the input has 8589934592000",
        FIELDS,
        {"spatial_shape": [2**10 * 1000, 2**22, 10**9]},
    ),
    Inconsistent(RULEBOOK, SHAPES, {}, "has 35937 taps, more than 32768", FIELDS, {"kernel_size": _MANY}),
)


HUGE = "rows are int32, and 2^31 pairs of less than 2^31 rows differ from fewer in nothing but the size of the table"

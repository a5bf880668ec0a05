"""The reduction of rows of consecutive segments, as Autoware's plugin and torch_scatter have it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._rows import reduced
from tests.importers.foreign.model import Arrays, Example, Inconsistent

SEGMENTS = "SegmentReduction"


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(6)
    return {
        "source": rng.normal(size=(11, 6)).astype(np.float32),
        "offsets": np.array([0, 3, 3, 8, 11], np.int64),
    }


def by(how: str):  # type: ignore[no-untyped-def]
    def oracle(arrays: Arrays) -> np.ndarray:
        row, ends = np.arange(len(arrays["source"])), arrays["offsets"]
        member = (row >= ends[:-1, None]) & (row < ends[1:, None])
        return reduced(arrays["source"], member, how)

    return oracle


EXAMPLES = (
    *(
        Example(SEGMENTS, "SegmentCSR", "autoware", {"reduce": how}, inputs, by(how), note=how)
        for how in ("sum", "mean", "max", "min")
    ),
    *(
        Example(SEGMENTS, f"segment_{how}_csr", "torch_scatter", {}, inputs, by(how))
        for how in ("sum", "mean", "max", "min")
    ),
    Example(SEGMENTS, SEGMENTS, "trtsmith", {"reduction": 1}, inputs, by("mean")),
)

SHAPES = {"source": (11, 6), "offsets": (5,)}
INCONSISTENT = (
    Inconsistent(SEGMENTS, SHAPES, {"source": ()}, "source has no dimensions", {"reduction": 0}),
    Inconsistent(SEGMENTS, SHAPES, {"offsets": (0,)}, "offsets has no element", {"reduction": 0}),
)

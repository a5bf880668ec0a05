"""The reduction of rows in consecutive segments, as in Autoware's plugin and torch_scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rows import reduced
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.reduction._rows import MAX

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


def huge(side: int, device: str) -> Huge:
    """Rows of side elements, two to a segment: at 46,400, the source has 2.15e9 elements."""
    import torch

    source = torch.randn(side, side, device=device, dtype=torch.float16)
    offsets = torch.tensor([0, 2, side // 2, side // 2, side - 2, side], device=device)[[0, 1, 2, 2, 3, 4, 5]]

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        found = outputs[0]
        results = [
            ("first two rows", numbers(found[0]), numbers(source[:2]).max(0)),
            ("last two rows", numbers(found[5]), numbers(source[-2:]).max(0)),
        ]
        results += [(f"segment {i} without rows", numbers(found[i]) + 1, np.ones(side)) for i in (2, 3)]
        return results

    return Huge({"reduction": MAX}, {"source": source, "offsets": offsets}, check)


HUGE = HugeCase(huge, size=46_400, small=150)

"""Row reduction by index with a given number of segments, as exporters of torch_scatter write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rows import inputs, one_dimension, scattered
from tests.importers.foreign.model import Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.reduction._rows import MAX

SCATTER = "IndexedReduction"
SIZED = {"dim": 0, "dim_size": 8}

EXAMPLES = (
    *(
        Example(
            SCATTER,
            f"scatter_{how}",
            "torch_scatter",
            SIZED,
            inputs,
            scattered(how, 8, origin=True),
            types=("T", "N"),
        )
        for how in ("max", "min")
    ),
    *(
        Example(SCATTER, f"scatter_{how}", "torch_scatter", SIZED, inputs, scattered(what, 8))
        for how, what in (("sum", "sum"), ("add", "sum"), ("mean", "mean"))
    ),
    Example(
        SCATTER,
        "scatter_mean",
        "dpvo",
        {"dim": 0, "dim_size": 8},
        one_dimension,
        scattered("mean", 8),
        note="one dimension",
    ),
    Example(
        SCATTER, SCATTER, "trtsmith", {"segments": 6, "reduction": 2}, inputs, scattered("max", origin=True)
    ),
)

SHAPES = {"source": (9, 5), "index": (9,)}
FIELDS = {"segments": 6, "reduction": 0}
INCONSISTENT = (
    Inconsistent(SCATTER, SHAPES, {"source": ()}, "source has no dimensions", FIELDS),
    Inconsistent(SCATTER, SHAPES, {"index": (8,)}, "index[0] = 8, but source[0] = 9", FIELDS),
)


def huge(side: int, device: str) -> Huge:
    """Rows of side elements, of which a few share a segment: at 46,400, the source has 2.15e9 elements."""
    import torch

    source = torch.randn(side, side, device=device, dtype=torch.float16)
    index = torch.full((side,), -1, device=device)
    index[[0, side // 2, side - 1]] = torch.tensor([1, 2, 1], device=device)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output, origin = (numbers(found) for found in outputs)
        pair = numbers(source[[0, side - 1]])
        return [
            ("no row", output[0] + 1, np.ones(side)),
            ("two rows", output[1], pair.max(0)),
            ("one row", output[2], numbers(source[side // 2])),
            ("origins of two rows", origin[1], (side - 1.0) * pair.argmax(0)),
            ("origins of no row", origin[0], np.full(side, float(side))),
        ]

    return Huge({"segments": 3, "reduction": MAX}, {"source": source, "index": index}, check)


HUGE = HugeCase(huge, size=46_400, small=150)

"""Row reduction by index with a data-dependent number of segments, as exporters of torch_scatter write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rows import inputs, one_dimension, scattered
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, Largest, numbers
from trtsmith.importers.ops.reduction._rows import SUM

SCATTER = "DynamicIndexedReduction"


def own(arrays: Arrays) -> tuple[np.ndarray, ...]:
    values, origin = scattered("min", origin=True)(arrays)
    return values, origin, np.array(6)


EXAMPLES = (
    *(
        Example(
            SCATTER,
            f"scatter_{how}",
            "torch_scatter",
            {"dim": 0, "dim_size": -1},
            inputs,
            scattered(how, origin=True),
            types=("T", "N"),
        )
        for how in ("max", "min")
    ),
    *(
        Example(SCATTER, f"scatter_{how}", "torch_scatter", {"dim": 0}, inputs, scattered(what))
        for how, what in (("sum", "sum"), ("add", "sum"), ("mean", "mean"))
    ),
    Example(
        SCATTER,
        "scatter_max",
        "dpvo",
        {"dim": 0},
        one_dimension,
        scattered("max", origin=True),
        note="one dimension",
        types=("T", "N"),
    ),
    *(
        Example(SCATTER, "scatter_all", "zf", {"value": how}, inputs, scattered(how), note=how)
        for how in ("sum", "mean", "max")
    ),
    Example(SCATTER, "ScatterMax", "plugin", {"dim": 0}, inputs, scattered("max")),
    Example(SCATTER, SCATTER, "trtsmith", {"reduction": 3}, inputs, own),
)

SHAPES = {"source": (9, 5), "index": (9,)}
FIELDS = {"reduction": 0}
INCONSISTENT = (
    Inconsistent(SCATTER, SHAPES, {"source": ()}, "source has no dimensions", FIELDS),
    Inconsistent(SCATTER, SHAPES, {"index": (8,)}, "index[0] = 8, but source[0] = 9", FIELDS),
)

LARGEST = (Largest(SCATTER, FIELDS, (("float32", (Largest.SIZE, 0)), ("int64", (Largest.SIZE,)))),)


def huge(side: int, device: str) -> Huge:
    """Rows of side elements, each its own segment but for the last: at 46,400, source and output have 2.15e9 elements."""
    import torch

    source = torch.randn(side, side, device=device, dtype=torch.float16)
    index = torch.arange(side, device=device).flip(0)
    index[-1] = 1

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        rows = outputs[0].reshape(-1)[: side * side].reshape(side, side)
        last = numbers(source[-2]) + numbers(source[-1])
        return [
            ("last segment", numbers(rows[side - 1]), numbers(source[0])),
            ("two rows", numbers(rows[1]), last),
            ("none", numbers(rows[0]) + 1, np.ones(side)),
            ("count", numbers(outputs[2]), np.array(float(side))),
        ]

    return Huge({"reduction": SUM}, {"source": source, "index": index}, check)


HUGE = HugeCase(huge, size=46_400, small=150)

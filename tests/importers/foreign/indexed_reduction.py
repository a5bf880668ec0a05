"""The reduction of rows by index with a given number of segments, as exporters of torch_scatter write it."""

from __future__ import annotations

from tests.importers.foreign._rows import inputs, one_dimension, scattered
from tests.importers.foreign.model import Example, Inconsistent

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

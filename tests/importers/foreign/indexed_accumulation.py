"""Row reduction by index into rows of data, as trtsmith's own node; a rule recognises what exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._rows import INDEX, inputs, one_dimension
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.reduction._rows import MAX

ACCUMULATION = "IndexedAccumulation"
REDUCTIONS = {"sum": (0, np.add), "max": (2, np.maximum), "min": (3, np.minimum)}


def _with_data(given: dict[str, np.ndarray | None]) -> dict[str, np.ndarray | None]:
    source = given["source"]
    assert source is not None
    data = np.random.default_rng(4).integers(-2, 3, (7, *source.shape[1:])).astype(np.float32)
    return {"data": data, "index": INDEX.copy(), "source": source}


def rows() -> dict[str, np.ndarray | None]:
    return _with_data(inputs())


def single_numbers() -> dict[str, np.ndarray | None]:
    return _with_data(one_dimension())


def accumulated(how: str):  # type: ignore[no-untyped-def]
    """The oracle of a node, by numpy's own scatters."""

    def oracle(arrays: Arrays) -> np.ndarray:
        output = arrays["data"].astype(np.float64)
        REDUCTIONS[how][1].at(output, arrays["index"], arrays["source"].astype(np.float64))
        return output

    return oracle


def mean(arrays: Arrays) -> np.ndarray:
    output = accumulated("sum")(arrays)
    count = 1 + np.bincount(arrays["index"], minlength=len(output))
    return np.asarray(output / count[:, None])


EXAMPLES = (
    *(
        Example(
            ACCUMULATION,
            ACCUMULATION,
            "trtsmith",
            {"reduction": number},
            rows,
            accumulated(how),
            note=how,
        )
        for how, (number, _) in REDUCTIONS.items()
    ),
    Example(ACCUMULATION, ACCUMULATION, "trtsmith", {"reduction": 1}, rows, mean, note="mean"),
    Example(
        ACCUMULATION,
        ACCUMULATION,
        "trtsmith",
        {"reduction": 0},
        single_numbers,
        accumulated("sum"),
        note="one dimension",
    ),
)

SHAPES = {"data": (7, 5), "index": (9,), "source": (9, 5)}
FIELDS = {"reduction": 0}
INCONSISTENT = (
    Inconsistent(ACCUMULATION, SHAPES, {"data": ()}, "data has no dimensions", FIELDS),
    Inconsistent(ACCUMULATION, SHAPES, {"source": (9,)}, "source has 1 dimensions, but data has 2", FIELDS),
    Inconsistent(ACCUMULATION, SHAPES, {"source": (9, 4)}, "source[1] = 4, but data[1] = 5", FIELDS),
    Inconsistent(ACCUMULATION, SHAPES, {"index": (8,)}, "index[0] = 8, but source[0] = 9", FIELDS),
)


def huge(side: int, device: str) -> Huge:
    """Rows of side elements, of data and of the source: at 46,400, each has 2.15e9 elements."""
    import torch

    data = torch.randn(side, side, device=device, dtype=torch.float16)
    source = torch.randn(side, side, device=device, dtype=torch.float16)
    index = torch.full((side,), -1, device=device)
    index[[0, side // 2, side - 1]] = torch.tensor([side - 1, 2, side - 1], device=device)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output = outputs[0]
        three = np.stack([numbers(data[-1]), numbers(source[0]), numbers(source[-1])])
        two = np.stack([numbers(data[2]), numbers(source[side // 2])])
        return [
            ("no row", numbers(output[-2]), numbers(data[-2])),
            ("two rows", numbers(output[-1]), three.max(0)),
            ("one row", numbers(output[2]), two.max(0)),
        ]

    return Huge({"reduction": MAX}, {"data": data, "index": index, "source": source}, check)


HUGE = HugeCase(huge, size=46_400, small=150)

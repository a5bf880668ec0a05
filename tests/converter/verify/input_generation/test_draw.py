"""Made-up values at the sizes that are awkward: empty, one, scalar, too many for what they point into."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.verify.input_generation.draw import draw, levels
from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind
from trtsmith.converter.verify.inputs import SEED


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (1, 1), (2, 4), (5, 1, 4)])
@pytest.mark.parametrize(
    "kind", [k for k in ValueKind if k not in (ValueKind.LEVEL_SIZES, ValueKind.LEVEL_STARTS)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_every_shape_and_type(dtype: str, kind: ValueKind, shape: tuple[int, ...]) -> None:
    values = draw(np.random.default_rng(0), dtype, shape, InputValues(kind, "", 0, 5, distinct=0))
    assert (str(values.dtype), values.shape) == (dtype, shape)
    assert np.isfinite(values.astype(np.float64)).all()


def test_more_indices_than_places_may_come_twice() -> None:
    rng = np.random.default_rng(0)
    assert draw(rng, "int64", (9,), InputValues(ValueKind.INDEX, "", 0, 3, distinct=0)).max() == 3
    tuples = draw(rng, "int64", (9, 2), InputValues(ValueKind.INDEX, "", bounds=(2, 3), distinct=-1))
    assert tuples.max(axis=0).tolist() == [1, 2]


def test_a_row_of_one_element_counts() -> None:
    for counts in (0, 1):
        mask = draw(
            np.random.default_rng(0), "int64", (50, 1), InputValues(ValueKind.MASK, "", counts=counts)
        )
        assert set(mask.reshape(-1)) == {counts}


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 5), (41, 2), (22223, 4), (3, 5)])
def test_levels_share_all_rows(rows: int, count: int) -> None:
    sizes = levels(rows, count)
    assert len(sizes) == count and sum(height * width for height, width in sizes) == rows
    assert rows < count or all(height * width > 0 for height, width in sizes)


def test_few_numbers_have_both_signs() -> None:
    """Three negative numbers make zeros of a Relu."""
    drawn = draw(np.random.default_rng(SEED), "float32", (1, 3), None)
    assert (drawn < 0).any() and (drawn > 0).any()

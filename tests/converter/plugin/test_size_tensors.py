"""Outputs whose sizes depend on values, cut to what a run wrote."""

from __future__ import annotations

import numpy as np
import pytest

from converter.plugin.abi import Status
from converter.plugin.native import PluginError
from converter.plugin.size_tensors import cut_to_sizes

FULL = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_output_whose_size_another_output_holds_is_cut_from_the_front() -> None:
    outputs = [FULL, np.array(2, np.int64)]
    np.testing.assert_array_equal(cut_to_sizes(FULL, [1, None], outputs, "here"), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(
        cut_to_sizes(FULL, [None, 1], outputs, "here"), FULL.reshape(-1)[:8].reshape(4, 2)
    )
    assert cut_to_sizes(FULL, [None, None], outputs, "here") is FULL


def test_nothing_and_everything_can_be_written() -> None:
    assert cut_to_sizes(FULL, [1, None], [FULL, np.array(0)], "here").shape == (0, 3)
    assert cut_to_sizes(FULL, [1, None], [FULL, np.array(4)], "here").shape == (4, 3)


@pytest.mark.parametrize("size", [-1, 5])
def test_a_size_outside_of_its_bound_is_a_fault_of_the_plugin(size: int) -> None:
    with pytest.raises(PluginError, match=rf"wrote the size {size} to output 1.*bounds it by 4") as caught:
        cut_to_sizes(FULL, [1, None], [FULL, np.array(size)], "here")
    assert caught.value.status is Status.BROKEN

"""State spaces whose maps B and C are [channels, states]."""

import pytest

from tests.importers.foreign.model import Example
from tests.importers.foreign.state_space_scan import FIXED_MAPS
from tests.importers.lowered import lowered, run_lowered, tensors_of, worst


@pytest.mark.parametrize("example", FIXED_MAPS, ids=lambda example: example.note)
def test_maps_that_are_the_same_for_all_tokens(example: Example) -> None:
    arrays = tensors_of(example)
    assert worst(run_lowered(lowered(example), arrays, 17), example.expected(arrays)) < 2e-6

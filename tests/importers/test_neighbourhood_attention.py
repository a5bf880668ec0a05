"""Refusals of the aliases of neighbourhood attention, in the node's terms rather than the plugin's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.importers.foreign.neighbourhood_attention import ATTENTION
from tests.importers.lowered import find, refused


@pytest.mark.parametrize(
    ("op_type", "given", "reason"),
    [
        ("na1d", {"kernel_size": [3], "stride": [4]}, "stride = 4, more than 3 = kernel_size"),
        ("na2d", {"kernel_size": [3], "stride": [1, 4]}, "stride[1] = 4, more than 3 = kernel_size"),
        ("na2d", {"kernel_size": [99, 3], "stride": [1]}, "less than 99 * "),
    ],
)
def test_attributes_have_the_names_of_the_node(op_type: str, given: dict[str, Any], reason: str) -> None:
    assert reason in refused(find(ATTENTION, op_type), **given).reason

"""Outputs whose sizes depend on values: cut to what a run wrote, and refused where int32 may not hold them."""

from __future__ import annotations

import numpy as np
import pytest

from trtsmith.converter.engine import libraries
from trtsmith.converter.plugin.host.abi import Status
from trtsmith.converter.plugin.host.host import Host, Plugin
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.converter.plugin.host.size_tensors import cut_to_sizes
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import SIZED_OPS

FULL = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_output_whose_size_another_output_holds_is_cut_from_the_front() -> None:
    outputs = [FULL, np.array(2, np.int32)]
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


LARGEST = 2**31 - 1
LARGE: dict[str, tuple[dict[str, int], list[tuple[str, tuple[int, ...]]]]] = {
    "NonZeroPositions": ({}, [("float16", (1, LARGEST))]),
    "SelectedSlices": ({"axis": 1}, [("float32", (0, LARGEST)), ("bool", (LARGEST,))]),
    "UniqueSlices": ({"axis": 1, "sorted": 1}, [("int64", (0, LARGEST))]),
    "BoxSelection": (
        {"center_point_box": 0, "most": 1},
        [("float32", (LARGEST, 5, 4)), ("float32", (LARGEST, 1, 5)), ("int64", (1,)), ("float32", (1,))],
    ),
}
"""Fields and inputs of each operator with which a size can be the largest of int32."""


@pytest.mark.parametrize("op", SIZED_OPS, ids=lambda op: op.name)
def test_plugins_refuse_sizes_that_their_size_tensors_cannot_hold(op: OpDef) -> None:
    fields, given = LARGE[op.name]
    with (
        Host().open(libraries.plugin_library()) as library,
        library.creator(op.name).create(fields) as plugin,
    ):
        configure(plugin, given)
        grown = [(dtype, tuple(n + (n == LARGEST) for n in shape)) for dtype, shape in given]
        with pytest.raises(PluginError, match="configurePlugin returned") as caught:
            configure(plugin, grown)
    assert caught.value.status is Status.REFUSED


def configure(plugin: Plugin, given: list[tuple[str, tuple[int, ...]]]) -> None:
    inputs = [TensorDesc(dtype, shape) for dtype, shape in given]
    types = plugin.output_types([desc.dtype for desc in inputs])
    shapes = plugin.concrete_shapes([desc.shape for desc in inputs])
    plugin.configure(inputs, [TensorDesc(*output) for output in zip(types, shapes, strict=True)])

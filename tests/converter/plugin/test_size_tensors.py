"""Outputs whose sizes depend on values: cut to what a run wrote, and refused where int32 may not hold them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.importers.foreign import LARGEST, Largest
from trtsmith.converter.engine import libraries
from trtsmith.converter.plugin.host.abi import Status
from trtsmith.converter.plugin.host.host import Host, Plugin
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.converter.plugin.host.size_tensors import cut_to_sizes

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


@pytest.mark.parametrize("largest", LARGEST, ids=str)
def test_plugins_refuse_sizes_that_their_size_tensors_cannot_hold(largest: Largest) -> None:
    given = largest.inputs
    with (
        Host().open(libraries.plugin_library()) as library,
        library.creator(largest.op).create(dict(largest.fields)) as plugin,
    ):
        configure(plugin, given)
        grown = [(dtype, tuple(n + (n == Largest.SIZE) for n in shape)) for dtype, shape in given]
        with pytest.raises(PluginError, match="configurePlugin returned") as caught:
            configure(plugin, grown)
    assert caught.value.status is Status.REFUSED


def configure(plugin: Plugin, given: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    inputs = [TensorDesc(dtype, shape) for dtype, shape in given]
    types = plugin.output_types([desc.dtype for desc in inputs])
    shapes = plugin.concrete_shapes([desc.shape for desc in inputs])
    plugin.configure(inputs, [TensorDesc(*output) for output in zip(types, shapes, strict=True)])

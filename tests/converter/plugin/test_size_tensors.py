"""Outputs with data-dependent sizes are cut to what a run wrote, and refused where int32 may overflow."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from tests.importers.foreign import LARGEST, Largest
from trtsmith.converter.engine import libraries
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.abi import Status
from trtsmith.converter.plugin.host.enqueue import as_enqueued, cut_to_sizes, described, prepared
from trtsmith.converter.plugin.host.host import Host, Plugin
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import OutputDim, TensorDesc
from trtsmith.importers.registry import OPS, by_name

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


def test_size_tensors_that_hold_nothing_are_described_as_tensorrt_does() -> None:
    rule = [[OutputDim(None, 0, 1, "s")], []]
    outputs = described(["float32", "int32"], rule)
    assert [desc.shape for desc in as_enqueued(outputs, rule)] == [(0,), (1,)]
    some = [[OutputDim(None, 4, 1, "s"), OutputDim(3, 3, None, "3")], []]
    assert [desc.shape for desc in as_enqueued(described(["float32", "int32"], some), some)] == [(4, 3), ()]


EMPTY = [
    case
    for case in contract_cases()
    if by_name()[case.plugin].data_dependent and any(0 in desc.shape for desc in case.outputs)
]


@pytest.mark.parametrize("case", EMPTY, ids=lambda case: f"{case.plugin}-{case.name}")
def test_plugins_take_size_tensors_as_tensorrt_describes_them(
    case: ContractCase, capfd: pytest.CaptureFixture[str]
) -> None:
    """What comes behind the check of shapes is CUDA's error: there is no memory."""
    with (
        Host().open(libraries.plugin_library()) as library,
        library.creator(case.plugin).create(dict(case.fields)) as plugin,
        prepared(plugin, case.inputs, lambda size: 0) as ready,
    ):
        for strange in (False, True):
            outputs = [
                replace(desc, shape=(1, 1)) if strange and desc.shape == () else desc
                for desc in ready.outputs
            ]
            io = ready.context.io(case.inputs, outputs) if strange else ready.io
            with suppress(PluginError):
                replace(ready, io=io).run(ready.buffers([0] * 9, [0] * 9, None))
            assert ("another shape than its rule" in capfd.readouterr().err) is strange


def test_every_operator_has_a_case_in_which_a_size_can_only_be_nothing() -> None:
    met = set()
    for case in EMPTY:
        with (
            Host().open(libraries.plugin_library()) as library,
            library.creator(case.plugin).create(dict(case.fields)) as plugin,
        ):
            rules = plugin.output_shapes([desc.shape for desc in case.inputs])
            if (1,) in [desc.shape for desc in as_enqueued(case.outputs, rules)]:
                met.add(case.plugin)
    assert met == {op.name for op in OPS if op.data_dependent}

"""Every kernel against its reference, in every small case and dtype, through the plugin host and without TensorRT."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from converter.libraries import plugin_library, plugin_library_v2
from converter.plugin.cases import SEED, cast_inputs, gpu_cases, type_choices
from converter.plugin.checks_gpu import compare
from converter.plugin.host import Host, PluginLibrary
from importers.registry import OPS

pytestmark = pytest.mark.gpu

SMALL = [(op, case) for op in OPS for case in op.cases if not case.large]
IDS = [f"{op.name}-{case.name}" for op, case in SMALL]


@pytest.fixture(scope="module", params=["V3", "V2"])
def library(request: pytest.FixtureRequest) -> Iterator[PluginLibrary]:
    with Host().open(plugin_library() if request.param == "V3" else plugin_library_v2()) as opened:
        yield opened


@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_kernel_agrees_with_its_reference(library: PluginLibrary, name: str) -> None:
    ran = 0
    for case in gpu_cases(name, large=False):
        with library.creator(name).create(dict(case.fields)) as plugin:
            compare(plugin.run(case.inputs), case)
        ran += 1
    assert ran


@pytest.mark.parametrize(("op", "case"), SMALL, ids=IDS)
def test_a_second_run_is_bitwise_equal(library: PluginLibrary, op, case) -> None:
    types = type_choices(op)[0]
    inputs = list(cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types).values())
    with library.creator(op.name).create(dict(case.fields)) as plugin:
        first, second = plugin.run(inputs), plugin.run(inputs)
    assert [array.tobytes() for array in first] == [array.tobytes() for array in second]

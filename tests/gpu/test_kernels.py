"""Every kernel against its reference, in every small case and dtype, through the plugin host and without TensorRT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2
from trtsmith.converter.plugin.cases import SEED, cast_inputs, gpu_cases, type_choices
from trtsmith.converter.plugin.checks.checks_gpu import compare
from trtsmith.converter.plugin.host.enqueue import run_plugin
from trtsmith.converter.plugin.host.host import Host, PluginLibrary
from trtsmith.importers.opdef import Case, OpDef
from trtsmith.importers.registry import OPS

pytestmark = pytest.mark.gpu

LIBRARIES = [(which, op) for which in ("V3", "V2") for op in OPS if which in op.interfaces]
SMALL = [(which, op, case) for which, op in LIBRARIES for case in op.cases if not case.large]


@contextmanager
def opened(which: str) -> Iterator[PluginLibrary]:
    with Host().open(plugin_library() if which == "V3" else plugin_library_v2()) as library:
        yield library


@pytest.mark.parametrize(("which", "op"), LIBRARIES, ids=lambda part: getattr(part, "name", part))
def test_kernel_agrees_with_its_reference(which: str, op: OpDef) -> None:
    ran = 0
    with opened(which) as library:
        for case in gpu_cases(op.name, large=False):
            with library.creator(op.name).create(dict(case.fields)) as plugin:
                compare(run_plugin(plugin, case.inputs), case)
            ran += 1
    assert ran


@pytest.mark.parametrize(("which", "op", "case"), SMALL, ids=lambda part: getattr(part, "name", part))
def test_a_second_run_is_bitwise_equal(which: str, op: OpDef, case: Case) -> None:
    types = type_choices(op)[0]
    inputs = list(cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types).values())
    with opened(which) as library, library.creator(op.name).create(dict(case.fields)) as plugin:
        first, second = run_plugin(plugin, inputs), run_plugin(plugin, inputs)
    assert [array.tobytes() for array in first] == [array.tobytes() for array in second]

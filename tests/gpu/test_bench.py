"""`trtsmith plugin bench` on a real GPU, at small sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.importers.running import some_case
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.importers.registry import OPS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    from trtsmith.converter.plugin.bench.kernel_torch import open_bench

    with open_bench(plugin_library(), 60.0) as opened:
        yield opened


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("op", [op for op in OPS if op.benchmarks], ids=lambda op: op.name)
def test_kernels_are_right_while_they_are_timed(machine: Any, op: Any, dtype: str) -> None:
    case = some_case(op)
    subject = machine.subject(op, case, case.inputs(np.random.default_rng(1)), dtype, 3)
    measured = subject.ours(30)
    subject.close()
    assert measured.error is not None and measured.error <= max(op.tolerance.get(dtype, 0.0), 1e-3)
    assert 0 < measured.times.minimum <= measured.times.median < 10_000 and measured.times.count == 30

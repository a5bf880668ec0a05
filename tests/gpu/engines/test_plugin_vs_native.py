"""The expansion as an engine beside the plugin's kernel, on a real GPU, at small sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.importers.running import some_case
from trtsmith.converter.engine.builder.flavour import installed_flavours, load_flavour
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.importers.registry import OPS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    if not installed_flavours():
        pytest.skip("no TensorRT")
    from trtsmith.converter.plugin.bench.kernel_torch import open_bench

    with open_bench(plugin_library(), 60.0) as opened:
        yield opened


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", [op for op in OPS if op.benchmarks], ids=lambda op: op.name)
def test_the_engine_computes_the_operator_while_it_is_timed(machine: Any, op: Any, dtype: str) -> None:
    from trtsmith.converter.bench.expansion_engine import measure_expansion

    case = some_case(op)
    generated = case.inputs(np.random.default_rng(1))
    subject = machine.subject(op, case, generated, dtype, 3)
    figures = measure_expansion(load_flavour(), subject, generated, 30)
    subject.close()
    assert figures["error"] is not None
    assert figures["error"] <= max(op.tolerance.get(dtype, 0.0), 2e-3)  # TensorRT may round products to TF32
    assert 0 < figures["minimum_us"] <= figures["median_us"] < 100_000
    assert figures["engine_bytes"] > 1000 and figures["layers"] > 0 and figures["enqueue_us"] > 0

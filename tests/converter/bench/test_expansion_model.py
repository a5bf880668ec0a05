"""The "native" model computes the operator, with constants where an engine has constants."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from tests.importers.running import some_case
from trtsmith.converter.plugin.bench.kernel_expansion import engine_model
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", [op for op in OPS if op.benchmarks], ids=lambda op: op.name)
def test_it_computes_the_operator_from_the_inputs_that_are_left(op: OpDef, dtype: str) -> None:
    case = some_case(op)
    generated = case.inputs(np.random.default_rng(5))
    inputs = [port.name for port in op.inputs if port.name in generated and port.name not in op.constants]
    model = engine_model(op, case.fields, generated, dtype)
    assert [value.name for value in model.graph.input] == inputs
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {name: generated[name].astype(op.dtypes(dtype)[op.port(name).type]) for name in inputs}
    found = session.run(None, feeds)[0].astype(np.float64)
    rounded = {
        port.name: generated[port.name].astype(op.dtypes(dtype)[port.type])
        for port in op.inputs
        if port.name in generated
    }
    right = next(iter(op.reference(case.fields, rounded).values()))
    if not op.tolerance:  # its outputs are exact
        np.testing.assert_array_equal(found, right)
        return
    error = np.linalg.norm(found - right) / np.linalg.norm(right)
    assert error <= 2 * op.tolerance[dtype]

"""The model that stands for "native": it computes the operator, and what is constant in an engine is constant."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from trtsmith.converter.bench.expansion_model import engine_model
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

CASES = {
    "MultiscaleDeformableAttention": ("two_levels", ["value", "sampling_locations", "attention_weights"]),
    "ModulatedDeformableConvolution": ("odd", ["x", "offset", "mask"]),
    "DeformableConvolution": ("odd", ["x", "offset"]),
    "MatrixInverse": ("odd", ["x"]),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_it_computes_the_operator_from_the_inputs_that_are_left(op: OpDef, dtype: str) -> None:
    name, inputs = CASES[op.name]
    case = next(case for case in op.cases if case.name == name)
    generated = case.inputs(np.random.default_rng(5))
    model = engine_model(op, case.fields, generated, dtype)
    assert [value.name for value in model.graph.input] == inputs
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {name: generated[name].astype(dtype) for name in inputs}
    found = session.run(None, feeds)[0].astype(np.float64)
    rounded = {
        port.name: generated[port.name].astype(dtype if port.type == "T" else "int64")
        for port in op.inputs
        if port.name in generated
    }
    right = next(iter(op.reference(case.fields, rounded).values()))
    error = np.linalg.norm(found - right) / np.linalg.norm(right)
    assert error <= 2 * op.tolerance[dtype]

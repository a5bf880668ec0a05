"""bfloat16 and float8 across an edge: no value changes, and plain onnxruntime runs the model."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import load, parsed, value
from trtsmith.converter.locate.executors.executor import Onnxruntime, plain_edges


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_odd_types_cross_as_float32(dtype: type, tmp_path: Path) -> None:
    elem_type = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [oh.make_node("Identity", ["x"], ["h"]), oh.make_node("Cast", ["h"], ["z"], to=TensorProto.FLOAT)]
    outputs = [value("h", [3], elem_type), value("z", [3])]
    model = load(tmp_path / "m.onnx", nodes, [value("x", [3], elem_type)], outputs, opset=19)
    edges = plain_edges(model)
    onnx.checker.check_model(edges.model.proto, full_check=True)
    types = {
        v.type.tensor_type.elem_type
        for v in (*edges.model.proto.graph.input, *edges.model.proto.graph.output)
    }
    assert types == {TensorProto.FLOAT}
    x = np.array([0.3, -1.7, 200.0]).astype(dtype)
    assert x.astype(np.float32)[0] != np.float32(0.3)
    (put,) = edges.put_in({"x": x}).values()
    assert put.dtype == np.float32 and np.array_equal(put.astype(dtype), x)
    found = Onnxruntime().execute(model, {"x": x})
    assert found["h"].dtype == np.dtype(dtype) and np.array_equal(found["h"], x)
    assert np.array_equal(found["z"], x.astype(np.float32))


def test_plain_models_are_left_alone(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[1] x) => (float[1] y) { y = Neg (x) }")
    assert plain_edges(model).model is model

"""The graph for onnxruntime's TensorRT provider, and the lines that open it there.

The provider itself needs a GPU. onnxruntime without it takes the graph if functions stand in for the provider's operators.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper as oh

import trtsmith
from tests.converter.models import attention, inverse, written
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange
from trtsmith.converter.engine.bundle.provider_session import session_lines, slow_operators

OPTIONS = {"trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes"}
"""Documented at onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html."""

NESTED = """(float[2, 4, 4] x, bool c) => (float[2, 4, 4] y) {
    [inv] i = com.microsoft.Inverse (x)
    n = Neg (i)
    y = If (c) <then_branch = t () => (float[2, 4, 4] t) { [inner] t = com.microsoft.Inverse (n) },
        else_branch = e () => (float[2, 4, 4] e) { e = Identity (n) }> }"""


def rewritten(path: Path) -> onnx.ModelProto:
    output = path.with_suffix(".out.onnx")
    trtsmith.rewrite(path, output=output, runtime="onnxruntime")
    return onnx.load(output)


def test_plugin_nodes_are_in_the_providers_domain(tmp_path: Path) -> None:
    proto = rewritten(attention(tmp_path / "m.onnx"))
    onnx.checker.check_model(proto)
    (node,) = (node for node in proto.graph.node if node.domain)
    assert (node.op_type, node.domain) == ("MultiscaleDeformableAttention", "trt.plugins")
    texts = {a.name: a.s for a in node.attribute if a.type == onnx.AttributeProto.STRING}
    assert texts["plugin_namespace"] == b"trtsmith" and texts["plugin_version"] == b"1"
    assert {o.domain: o.version for o in proto.opset_import}["trt.plugins"] == 1


def test_onnxruntime_takes_the_graph_where_the_operators_are_there(tmp_path: Path) -> None:
    proto = rewritten(written(tmp_path / "m.onnx", NESTED))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match=r"trt\.plugins:MatrixInverse"):
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert "i" in {value.name for value in proto.graph.value_info}  # the provider's operators infer no types
    body = [oh.make_node("Add", ["x", "x"], ["y"])]
    fields = ["plugin_namespace", "plugin_version"]
    opsets = [oh.make_opsetid("", 17)]
    proto.functions.append(
        oh.make_function("trt.plugins", "MatrixInverse", ["x"], ["y"], body, opsets, fields)
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.ones((2, 4, 4), np.float32)
    (y,) = session.run(None, {"x": x, "c": np.array(True)})
    np.testing.assert_array_equal(y, -4 * x)


def test_a_graph_without_plugins_gets_no_domain(tmp_path: Path) -> None:
    proto = rewritten(written(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = Neg (x) }"))
    assert [entry.domain for entry in proto.opset_import] == [""]


@pytest.mark.parametrize("libraries", [(), (Path("/a b/one.so"), Path("two.so"))])
def test_the_lines_load_libraries_and_open_a_session(
    libraries: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    asked: list[Any] = []
    registry = SimpleNamespace(load_library=loaded.append)
    tensorrt = SimpleNamespace(get_plugin_registry=lambda: registry)
    monkeypatch.setitem(sys.modules, "tensorrt", tensorrt if libraries else None)
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda path, providers: asked.append((path, providers))
    )
    shapes = {"x": ShapeRange((1, 3), (2, 3), (8, 3)), "s": ShapeRange((), (), ())}
    exec(lines := session_lines(Path("it's.onnx"), libraries, shapes))
    assert ("'trt_extra_plugin_lib_paths': './libregister_plugins.so'" in lines) == bool(libraries)
    exec(session_lines(Path("m.onnx"), libraries, {}))
    ((path, ((provider, options), other)), (_, plain)) = asked
    assert (path, provider, other) == ("it's.onnx", "TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert options.keys() == OPTIONS and plain == [provider, other]
    assert options["trt_profile_max_shapes"] == "x:8x3,s:" and loaded == [str(p) for p in libraries] * 2


def test_nodes_that_stay_are_told_who_runs_them() -> None:
    graph = onnx.parser.parse_graph("""g (float[1,8,4] boxes, float[1,1,8] scores, bool more) => (int64[n,3] y) {
        y = If (more) <then_branch = t () => (int64[n,3] a) { a = NonMaxSuppression (boxes, scores) },
                       else_branch = e () => (int64[n,3] b) { i = NonZero (boxes) b = Transpose (i) }>
    }""")
    assert slow_operators(graph) == ["NonMaxSuppression", "NonZero"]
    lines = session_lines(Path("m.onnx"), (), {}, slow=slow_operators(graph))
    assert "# TensorRT runs NonMaxSuppression and NonZero. CUDA may be faster: " in lines
    assert "'trt_op_types_to_exclude': 'NonMaxSuppression,NonZero';" in lines
    assert "TensorRT runs" not in session_lines(Path("m.onnx"), (), {})


def test_dynamic_inputs_without_sizes_are_told_how_to_get_a_profile() -> None:
    inputs = [
        InputSpec("it's", "float32", (None, 3), ("n", "")),
        InputSpec("y", "float32", (None,), ("n",)),
        InputSpec("z", "float32", (4,), ("",)),
    ]
    lines = session_lines(Path("m.onnx"), (), {"y": ShapeRange((2,), (4,), (6,))}, inputs)
    assert (
        """: add --shapes 'it'"'"'s=2x3:4x3:6x3'\n""" in lines and "'trt_profile_min_shapes': 'y:2'" in lines
    )
    assert "--shapes" not in session_lines(Path("m.onnx"), (), {}, inputs[2:])


def test_one_form_of_the_graph(tmp_path: Path) -> None:
    model = inverse(tmp_path / "m.onnx")
    with pytest.raises(trtsmith.UsageError, match='expand=True and runtime="onnxruntime" are both given'):
        trtsmith.rewrite(model, expand=True, runtime="onnxruntime")
    with pytest.raises(trtsmith.UsageError, match="no form of the graph for 'openvino'"):
        trtsmith.rewrite(model, runtime="openvino")

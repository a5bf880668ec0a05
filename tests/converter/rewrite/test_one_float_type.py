"""Nodes with several floating-point types, as in ModelOpt's float16 exports, or with int32 for int64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.converter.rewrite.running import loaded
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.one_float_type import with_one_float_type
from trtsmith.converter.rewrite.rewrite import reference, rewrite

_X = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)

_MIXED = {
    "a constant takes the type of the values": (
        "(float16[2, 4] x) => (float16[2, 4] y) <float e = {0.5}> { y = Add (x, e) }",
        {"y": "float16"},
        lambda x: x.astype(np.float16) + np.float16(0.5),
    ),
    "a constant beyond the type widens the values": (
        "(float16[2, 4] x) => (float[2, 4] y) <float e = {100000}> { y = Add (x, e) }",
        {"y": "float32"},
        lambda x: x.astype(np.float16) + np.float32(1e5),
    ),
    "values are of the widest type, and an output of the one that is stated": (
        "(float16[2, 4] x, float[2, 4] z) => (float16[2, 4] y) { a = Mul (x, z)  y = Relu (a) }",
        {"a": "float32", "y": "float16"},
        lambda x: np.maximum(x.astype(np.float16).astype(np.float32) * x, 0).astype(np.float16),
    ),
    "float16 and bfloat16 meet in float32": (
        "(float16[2, 4] x, bfloat16[2, 4] z) => (float[2, 4] y) { y = Add (x, z) }",
        {"y": "float32"},
        None,
    ),
    "a scale is never rounded": (
        """(float16[2, 4] x) => (float[2, 4] y) <float s = {1e-7}, float t = {0.1}, int8 z = {0}> {
            q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, t, z) }""",
        {"y": "float32"},
        lambda x: (
            np.clip(np.rint(x.astype(np.float16).astype(np.float32) / np.float32(1e-7)), -128, 127)
            * np.float32(0.1)
        ),
    ),
    # ONNX text has the bits of float16: these are 1 and 2
    "scales of Resize are float32 whatever the values are": (
        """(float16[1, 1, 2, 4] x) => (float[1, 1, 4, 8] y) <float16[4] s = {15360, 15360, 16384, 16384}> {
            r = Resize <mode = "nearest"> (x, , s)  y = Cast <to = 1> (r) }""",
        {"r": "float16"},
        None,
    ),
    "inside of a branch": (
        """(float16[2, 4] x, bool c) => (float16[2, 4] y) <float e = {0.5}> {
            y = If (c) <then_branch = t () => (float16[2, 4] a) { a = Add (x, e) },
                        else_branch = f () => (float16[2, 4] b) { b = Relu (x) }> }""",
        {"y": "float16"},
        lambda x: x.astype(np.float16) + np.float16(0.5),
    ),
}


@pytest.mark.parametrize("name", _MIXED)
def test_what_a_node_reads_is_of_one_type(name: str, tmp_path: Path) -> None:
    text, types, expected = _MIXED[name]
    model = loaded(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 19]> g {text}'), tmp_path)
    result = rewrite(model)
    assert value_dtypes(result.model.proto).items() >= types.items()
    assert any("several floating-point types" in warning for warning in result.warnings())
    casts = [n.input[0] for g in all_graphs(result.model.proto.graph) for n in g.node if n.op_type == "Cast"]
    assert not {"e", "s", "t"} & set(casts)  # TensorRT wants scales constant
    sizes = {"x": np.float16, "z": np.float32, "c": np.bool_}
    if expected is None:
        onnx.checker.check_model(result.model.proto, full_check=True)
        return
    feeds = {
        i.name: (np.array(True) if i.name == "c" else _X.astype(sizes[i.name]))
        for i in model.proto.graph.input
    }
    for graph in (result.model, reference(model)):
        np.testing.assert_array_equal(run(graph, feeds)["y"], expected(_X))


def test_what_is_stated_of_a_value_gives_way_to_what_its_node_makes(tmp_path: Path) -> None:
    """nvidia-modelopt states uint8 of float8, and the shape of a weight from before it was transposed."""
    weight = "float8e4m3fn z = {0}, float[2, 3] w = {1, 2, 3, 4, 5, 6}"
    body = """q = trt.QuantizeLinear (x, s, z)  d = trt.DequantizeLinear (q, s)
        e = trt.QuantizeLinear (w, s, z)  v = trt.DequantizeLinear (e, s)  y = MatMul (d, v)"""
    text = f"(float[4, 2] x) => (float[4, 3] y) <float s = {{0.5}}, {weight}> {{ {body} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 21, "trt" : 1]> g {text}')
    stated = [
        ("q", onnx.TensorProto.UINT8, [4, 2]),
        ("d", onnx.TensorProto.FLOAT, ["n", 2]),
        ("v", onnx.TensorProto.FLOAT, [3, 2]),
    ]
    model.graph.value_info.extend(onnx.helper.make_tensor_value_info(*one) for one in stated)
    given = loaded(model, tmp_path)
    kept, casts = with_one_float_type(given)
    assert ([value.name for value in kept.proto.graph.value_info], casts) == (["d"], ())
    assert {node.op_type for node in rewrite(given).model.proto.graph.node} == {
        "QuantizeLinear",
        "DequantizeLinear",
        "MatMul",
    }


def test_a_sound_model_of_several_types_stays(tmp_path: Path) -> None:
    text = "(float16[2, 4] x, float e) => (float[2, 4] y) { a = Cast <to = 1> (x)  y = Add (a, e) }"
    model = loaded(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}'), tmp_path)
    assert with_one_float_type(model) == (model, ())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = ScatterND (x, i, v)", lambda x: np.array([x[0], 9 * np.ones(4, np.float32)])),
        (
            "k = Cast <to = 6> (j)  y = ScatterND (x, k, v)",
            lambda x: np.array([x[0], 9 * np.ones(4, np.float32)]),
        ),
        ("y = GatherND (x, c)", lambda x: x[[1, 1]]),
        (
            """y = If (t) <then_branch = a () => (float[m, 4] g) { g = GatherND (x, i) },
                           else_branch = b () => (float[m, 4] h) { h = Relu (x) }>""",
            lambda x: x[[1]],
        ),
    ],
)
def test_int32_indices_become_int64(
    body: str, expected: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    """PyTorch's exporter writes ScatterND so for index_put; indices count from the end, too."""
    inputs = "float[2, 4] x, int32[n, 1] i, int64[n, 1] j, float[n, 4] v, bool t"
    text = f"({inputs}) => (float[m, 4] y) <int32[2, 1] c = {{1, -1}}> {{ {body} }}"
    model = loaded(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {text}'), tmp_path)
    feeds = {"x": _X, "i": np.array([[-1]], np.int32), "j": np.array([[-1]]), "t": np.array(True)}
    feeds["v"] = np.full((1, 4), 9, np.float32)
    result = rewrite(model)
    assert not result.warnings()
    for graph in (result.model, reference(model)):
        onnx.checker.check_model(graph.proto, full_check=True)
        np.testing.assert_array_equal(run(graph, feeds)["y"], expected(_X))

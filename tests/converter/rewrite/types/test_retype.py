"""Where types are legalised and where they stay: ends of the graph, bodies, constants, quantized values."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from tests.converter.rewrite.running import engine_size, loaded
from tests.converter.rewrite.types.legalising import model_of, rewritten, run_legalised, types_of
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.rewrite.types import legalise_types

RNG = np.random.default_rng(0)


def kinds(result: Rewritten) -> list[str]:
    return [node.op_type for node in result.model.proto.graph.node if node.op_type != "Constant"]


@pytest.mark.parametrize(
    ("inputs", "body", "outputs"),
    [
        ("float[4] x, int64[4] i, bool[4] b", "y = Relu (x) j = Add (i, i)", "float[4] y, int64[4] j"),
        ("int8[4] x, int8[4] z", "a = Add (x, z) b = Max (a, z) y = Cast <to = 1> (b)", "float[4] y"),
        ("uint8[4] x", "y = Cast <to = 1> (x)", "float[4] y"),
        ("float[4] x", "a = Relu (x) y = Cast <to = 2> (a)", "uint8[4] y"),
        (
            "float[2, 4] x",
            """s = Constant <value = float {0.5}> () z = Constant <value = int8 {0}> ()
            q = QuantizeLinear (x, s, z) t = Transpose (q) d = DequantizeLinear (t, s, z) y = Relu (d)""",
            "float[4, 2] y",
        ),
        (
            "float16[2, 4] x",
            """s = Constant <value = float {0.5}> () c = Constant <value = float[2] {1.5, 2.5}> ()
            f = Cast <to = 1> (x) q = QuantizeLinear <output_dtype = 17> (f, s)
            t = Transpose (q) y = DequantizeLinear (t, s)""",
            "float[4, 2] y",
        ),
    ],
)
def test_what_tensorrt_takes_is_left(inputs: str, body: str, outputs: str, tmp_path: Path) -> None:
    proto = model_of(inputs, body, outputs)
    result = rewritten(proto, tmp_path)
    assert not result.rewrites and not result.io_types
    assert list(result.model.proto.graph.node) == list(proto.graph.node)


def test_a_model_without_odd_types_is_the_same_object(tmp_path: Path) -> None:
    model = loaded(model_of("float[4] x", "y = Relu (x)", "float[4] y"), tmp_path)
    graph = Graph(model)
    assert not legalise_types(graph).changed and graph.model() is model


def test_float64_is_computed_in_float32_and_says_so(tmp_path: Path) -> None:
    """Large weights, too, which are in a file."""
    proto = model_of(
        "double[3, 64] x, float[3, 4] f",
        """one = Constant <value = double {1.5}> ()
        s = Shape (f) fill = ConstantOfShape <value = double[1] {2.0}> (s)
        wide = Cast <to = 11> (f)
        eye = EyeLike <dtype = 11> (f)
        large = MatMul (x, v) a = MatMul (large, w) b = Add (a, one) c = Mul (b, fill) d = Sub (c, wide) y = Add (d, eye)
        z = Cast <to = 1> (y)""",
        "double[3, 4] y, float[3, 4] z",
    )
    proto.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=(64, 4)), "w"))
    proto.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=(64, 64)), "v"))
    feeds = {"x": RNG.normal(size=(3, 64)), "f": RNG.normal(size=(3, 4)).astype(np.float32)}
    ran = run_legalised(proto, feeds, tmp_path)
    for name, wanted in ran.expected.items():
        np.testing.assert_allclose(ran.got[name], wanted, rtol=1e-4, atol=1e-4)
    assert T.DOUBLE not in types_of(ran.result)
    assert [(io.name, io.before, io.after) for io in ran.result.io_types] == [
        ("x", "float64", "float32"),
        ("y", "float64", "float32"),
    ]
    assert sum("float64 is computed in float32" in text for text in ran.result.warnings()) == 1
    assert plan(ran.result).convertible
    assert engine_size(ran.result, tmp_path) > 0


def test_uint8_at_the_edges_stays_with_a_cast(tmp_path: Path) -> None:
    """An image that is moved before it is cast, and one that is made."""
    proto = model_of(
        "uint8[1, 4, 4, 3] x",
        """t = Transpose <perm = [0, 3, 1, 2]> (x) f = Cast <to = 1> (t)
        two = Constant <value = uint8 {200}> () y = Add (x, two)""",
        "float[1, 3, 4, 4] f, uint8[1, 4, 4, 3] y",
    )
    ran = run_legalised(proto, {"x": RNG.integers(0, 256, (1, 4, 4, 3), np.uint8)}, tmp_path)
    ran.check()
    assert not ran.result.io_types
    graph = ran.result.model.proto.graph
    assert [v.type.tensor_type.elem_type for v in (*graph.input, graph.output[1])] == [T.UINT8, T.UINT8]
    assert graph.node[0].op_type == graph.node[-1].op_type == "Cast"
    assert engine_size(ran.result, tmp_path) > 0


EXACT = {
    "an output of uint8 that is read inside too": (
        "float[4] x",
        "y = Cast <to = 2> (x) z = Mul (y, y) w = Identity (z)",
        "uint8[4] y, uint8[4] z, uint8[4] w",
        {"x": np.array([0, 3, 17.9, 255], np.float32)},
    ),
    "a loop that carries and scans": (
        "int16[2] x",
        """n = Constant <value = int64 {5}> () yes = Constant <value = bool {1}> ()
        last, all = Loop (n, yes, x) <body = body (int64 i, bool c, int16[2] prev)
                => (bool d, int16[2] next, int16[2] row) {
            d = Identity (c) next = Mul (prev, x) row = Add (next, prev)
        }>""",
        "int16[2] last, int16[5, 2] all",
        {"x": np.array([7, -181], np.int16)},
    ),
    "pooling of bytes in float": (
        "uint8[1, 1, 5, 5] x",
        """a = MaxPool <kernel_shape = [2, 2]> (x) s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
        y = Resize <mode = "nearest"> (a, , s)""",
        "uint8[1, 1, 8, 8] y",
        {"x": RNG.integers(0, 256, (1, 1, 5, 5), np.uint8)},
    ),
    "casts like another value": (
        "float[3] x, uint16[1] like, uint8[1] bytes",
        "y = CastLike (x, like) z = CastLike (x, bytes)",
        "uint16[3] y, uint8[3] z",
        {"x": np.array([1.5, 2.5, 200.7], np.float32), "like": np.zeros(1, np.uint16), "bytes": np.zeros(1, np.uint8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_results_are_exact_and_tensorrt_builds_it(name: str, tmp_path: Path) -> None:
    inputs, body, outputs, feeds = EXACT[name]
    ran = run_legalised(model_of(inputs, body, outputs), feeds, tmp_path)
    ran.check()
    assert T.INT16 not in types_of(ran.result)
    assert engine_size(ran.result, tmp_path) > 0


@pytest.mark.parametrize("dtype", ["int16", "uint8", "uint32", "double", "uint64"])
def test_both_branches_of_an_if(dtype: str, tmp_path: Path) -> None:
    to = {"int16": 5, "uint8": 2, "uint32": 12, "double": 11, "uint64": 13}[dtype]
    proto = model_of(
        f"bool c, {dtype}[4] x, {dtype}[4] z",
        f"""y = If (c) <
            then_branch = a () => ({dtype}[4] p) {{ k = Constant <value = int64 {{77}}> ()
                e = Cast <to = {to}> (k) q = Mul (x, z) p = Add (q, e) }},
            else_branch = b () => ({dtype}[4] r) {{ r = Sub (x, z) }}
        >
        w = Max (y, x)""",
        f"{dtype}[4] y, {dtype}[4] w",
    )
    numpy_type = {"double": "float64"}.get(dtype, dtype)
    x, z = np.array([1, 200, 3, 40], numpy_type), np.array([5, 250, 7, 8], numpy_type)
    for condition in (True, False):
        ran = run_legalised(proto, {"c": np.array(condition), "x": x, "z": z}, tmp_path)
        ran.check()
        assert not types_of(ran.result) & {T.INT16, T.UINT32, T.DOUBLE, T.UINT64}
    assert engine_size(ran.result, tmp_path) > 0


def test_outputs_that_are_inputs_or_initializers(tmp_path: Path) -> None:
    proto = model_of("uint16[3] x, double u", "y = Identity (x)", "uint16[3] y, uint16[2] w")
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 65535], np.uint16), "w"))
    ran = run_legalised(proto, {"x": np.array([0, 9, 65535], np.uint16), "u": np.array(1.0)}, tmp_path)
    ran.check()
    assert {io.name for io in ran.result.io_types} == {"x", "u", "y", "w"}


@pytest.mark.parametrize("values", [[], [1, 255]])
def test_a_uint8_output_that_is_an_initializer_stays_uint8(values: list[int], tmp_path: Path) -> None:
    size = len(values)
    proto = model_of("uint8[1] x", "y = Add (x, w)", f"uint8[{size}] y, uint8[{size}] w")
    proto.graph.initializer.append(numpy_helper.from_array(np.array(values, np.uint8), "w"))
    ran = run_legalised(proto, {"x": np.array([9], np.uint8)}, tmp_path)
    ran.check()
    assert engine_size(ran.result, tmp_path) > 0


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        g (int16[3] x) => (int16[3] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["" : 21]> twice (a) => (b) { c = Add (a, a) b = Mul (c, a) }"""
    )
    ran = run_legalised(proto, {"x": np.array([1000, -3, 32767], np.int16)}, tmp_path)
    ran.check()
    assert T.INT16 not in types_of(ran.result)


@pytest.mark.parametrize("node", [False, True])
def test_int4_weights_stay_quantized(node: bool, tmp_path: Path) -> None:
    """Read by a DequantizeLinear they keep their type; read by something else too, they are dequantized by one."""
    proto = model_of(
        "float[2, 4] x",
        """s = Constant <value = float {0.25}> () d = DequantizeLinear (w, s) a = MatMul (x, d)
        f = Cast <to = 1> (w) y = MatMul (a, f)""",
        "float[2, 4] y",
    )
    weights = helper.make_tensor("w", T.INT4, [4, 4], RNG.integers(-8, 8, 16).tolist())
    if node:
        proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=weights))
    else:
        proto.graph.initializer.append(weights)
    ran = run_legalised(proto, {"x": RNG.normal(size=(2, 4)).astype(np.float32)}, tmp_path)
    np.testing.assert_allclose(ran.got["y"], ran.expected["y"], rtol=1e-5)
    kept = [t.data_type for t in ran.result.model.proto.graph.initializer if t.name == "w"]
    assert node or kept == [T.INT4]
    assert engine_size(ran.result, tmp_path) > 0


def test_an_int8_node_that_tensorrt_lacks_is_computed_between_casts(tmp_path: Path) -> None:
    proto = model_of(
        "int8[4] x, int8 low",
        "a = Add (x, x) b = Clip (a, low) y = Sub (b, x)",
        "int8[4] y",
    )
    ran = run_legalised(
        proto, {"x": np.array([-40, 3, 50, 1], np.int8), "low": np.array(-9, np.int8)}, tmp_path
    )
    ran.check()
    assert kinds(ran.result) == ["Add", "Cast", "Cast", "Clip", "Cast", "Sub"]
    assert engine_size(ran.result, tmp_path) > 0


def test_dynamic_shapes_and_records(tmp_path: Path) -> None:
    proto = model_of("uint16[n, 3] x", "y = Mul (x, x)", "uint16[n, 3] y", opset=14, ir=7)
    result = rewritten(proto, tmp_path)
    (record,) = result.rewrites
    assert (record.pass_name, record.op_type, record.what) == ("types", "Mul", "uint16 in int32")
    assert set(record.made) == {node.name for node in result.model.proto.graph.node}
    assert result.model.proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint64"])
def test_exponents_do_not_decide_the_range(dtype: str, tmp_path: Path) -> None:
    proto = model_of(f"float[4] x, {dtype}[4] e", "y = Pow (x, e)", "float[4] y")
    x = np.array([-200.5, 3.25, 0.5, 20], np.float32)
    ran = run_legalised(proto, {"x": x, "e": np.array([3, 2, 7, 5], dtype)}, tmp_path)
    np.testing.assert_allclose(ran.got["y"], x ** np.array([3, 2, 7, 5]), rtol=1e-6)
    assert engine_size(ran.result, tmp_path) > 0


def test_what_cannot_be_exact_is_said(tmp_path: Path) -> None:
    proto = model_of("uint64[2, 3] x", "y = ReduceMean <keepdims = 0> (x)", "uint64 y")
    assert any("below 2**63" in text for text in rewritten(proto, tmp_path).warnings())

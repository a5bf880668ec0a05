"""Rules for what TensorRT-RTX computes wrongly: graphs that look like those and are right, which they leave alone."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules.bits.casts import BYTE_CASTS
from trtsmith.converter.rewrite.rules.layout.depthwise_filters import DEPTHWISE_FILTERS
from trtsmith.converter.rewrite.rules.matrices.gated_bias import GATED_BIAS
from trtsmith.converter.rewrite.rules.pointwise.functions import CONSTANT_LOGIC
from trtsmith.converter.rewrite.rules.pooling.pool_forms import POOLING
from trtsmith.converter.rewrite.rules.reductions.half_means import HALF_MEANS
from trtsmith.converter.rewrite.rules.reductions.log_sums import LOG_SUMS
from trtsmith.converter.rewrite.rules.reductions.short_reductions import SHORT_REDUCTIONS
from trtsmith.converter.rewrite.rules.resize.grid_sample import GRID_SAMPLE_RANKS
from trtsmith.converter.rewrite.target import RTX

CONSTANTS = {
    "first": np.array([0]),
    "second": np.array([1]),
    "both": np.array([2, 3]),
    "rows": np.array([1, 2]),
    "w": np.ones((6, 4), np.float32),
    "g6": np.ones(6, np.float32),
    "g1": np.ones(1, np.float32),
    "square": np.ones((6, 6), np.float32),
    "yes": np.array(True),
    "no": np.array(False),
    "wide_yes": np.ones((1, 1, 1), bool),
    "mixed": np.array([True, False, True, True]),
    "shape": np.array([3, 8]),
    "parts": np.array([2, 2]),
}


def fired(rule: NodeRule, signature: str, body: str, tmp_path: Path, opset: int = 18) -> int:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    )
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in read
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "m.onnx")
    result = rewrite(load_model(tmp_path / "m.onnx"), rules=(rule,), target=RTX)
    return sum(rule.name in record.pass_name.split(", ") for record in result.rewrites)


SHORT = "(float[4, 6] x, float[4, 6] z) => (float[m] y)"


@pytest.mark.parametrize(
    ("signature", "body", "times"),
    [
        # what is wrong
        (SHORT, "a = Softmax <axis = 0> (x) y = ReduceSum <keepdims = 0> (a, second)", 1),
        (
            SHORT,
            "a = Softmax <axis = 0> (x) b = Mul (z, a) c = Tanh (b) y = ReduceSum <keepdims = 0> (c, second)",
            1,
        ),
        (SHORT, "n = ReduceL2 (x, second) a = Div (x, n) y = ReduceSum <keepdims = 0> (a, second)", 1),
        # longer axes, one of a single element
        ("(float[4, 7] x) => (float[m] y)", "a = Softmax (x) y = ReduceSum <keepdims = 0> (a, first)", 0),
        ("(float[4, 1] x) => (float[m] y)", "a = Softmax (x) y = ReduceSum <keepdims = 0> (a, first)", 0),
        # the result goes on by itself, or beside other values
        (SHORT, "n = ReduceL2 (x, second) a = Exp (n) y = ReduceSum <keepdims = 0> (a, first)", 0),
        (SHORT, "n = ReduceL2 (x, second) a = Mul (z, n) y = ReduceSum <keepdims = 0> (a, first)", 0),
        (
            SHORT,
            """u = Mul (x, g6) n = ReduceL2 (u, second) t = Mul (z, g6) a = Mul (t, n)
            y = ReduceSum <keepdims = 0> (a, first)""",
            0,
        ),
        # a product, a choice in between
        (SHORT, "a = Softmax (x) b = MatMul (a, w) y = ReduceSum <keepdims = 0> (b, first)", 0),
        (SHORT, "a = Softmax (x) b, i = TopK (a, first) y = ReduceSum <keepdims = 0> (b, first)", 0),
        # sizes of run time: eight of them at least, a variance, and what is none
        (
            "(float[N, 8, H, W] x) => (float[a, b, c, d] y)",
            "m = ReduceMean (x, rows) d = Sub (x, m) y = ReduceMean (d, first)",
            0,
        ),
        (
            "(float[N, 8, H, W] x) => (float[a, b, c, d] y)",
            "m = ReduceMean (x, both) d = Sub (x, m) q = Mul (d, d) y = ReduceMean (q, both)",
            0,
        ),
        (
            "(float[N, 8, H, W] x) => (float[a, b, c, d] y)",
            "m = ReduceMean (x, both) d = Sub (x, m) y = GlobalAveragePool (d)",
            0,
        ),
        (
            "(float[N, 8, H, W] x) => (float[a, b, c, d] y)",
            "m = ReduceMean (x, both) d = Sub (x, m) y = ReduceMean (d, second)",
            1,
        ),
        (
            "(float[N, 8, H, W] x, int64[3] s) => (float[a, b, c] y)",
            """r = Reshape (x, s) m = ReduceMean (r, second) d = Sub (r, m) q = Mul (d, d) y = ReduceMean (q, second)""",
            0,
        ),
        ("(float[N, L] x) => (float[m] y)", "a = Softmax (x) y = ReduceSum <keepdims = 0> (a, second)", 1),
    ],
)
def test_short_reductions(signature: str, body: str, times: int, tmp_path: Path) -> None:
    assert fired(SHORT_REDUCTIONS, signature, body, tmp_path) == times


BOOLS = "(bool[2, 4] x) => (bool[a, b] y)"


@pytest.mark.parametrize(
    ("signature", "body", "times"),
    [
        (BOOLS, "y = Or (x, yes)", 1),
        (BOOLS, "y = And (no, x)", 1),
        (BOOLS, "y = Or (x, no)", 0),
        (BOOLS, "y = And (x, yes)", 0),
        (BOOLS, "y = Xor (x, yes)", 0),
        (BOOLS, "y = Or (x, mixed)", 0),
        (
            "(bool[2, 4] x) => (bool[a, b, c] y)",
            "y = Or (x, wide_yes)",
            0,
        ),  # the result has the constant's rank
    ],
)
def test_constant_logic(signature: str, body: str, times: int, tmp_path: Path) -> None:
    assert fired(CONSTANT_LOGIC, signature, body, tmp_path) == times


@pytest.mark.parametrize(
    ("source", "to", "times"),
    [("uint8", 9, 1), ("int8", 9, 1), ("uint8", 3, 1), ("int8", 2, 0), ("int32", 9, 0)],
)
def test_byte_casts(source: str, to: int, times: int, tmp_path: Path) -> None:
    names = {9: "bool", 3: "int8", 2: "uint8"}
    body = f"y = Cast <to = {to}> (x)"
    assert fired(BYTE_CASTS, f"({source}[4] x) => ({names[to]}[4] y)", body, tmp_path) == times


def test_means_and_logs_of_other_types_and_unknown_axes(tmp_path: Path) -> None:
    assert fired(HALF_MEANS, "(float[4] x) => (float[4] y)", "y = Mean (x, x)", tmp_path) == 0
    assert fired(HALF_MEANS, "(bfloat16[4] x) => (bfloat16[4] y)", "y = Mean (x, x)", tmp_path) == 1
    dynamic = "(float[4, 6] x, int64[1] axes) => (float[a, b] y)"
    assert fired(LOG_SUMS, dynamic, "y = ReduceLogSumExp (x, axes)", tmp_path) == 0
    kept = "y = ReduceLogSumExp <noop_with_empty_axes = 1> (x)"
    assert fired(LOG_SUMS, "(float[4, 6] x) => (float[4, 6] y)", kept, tmp_path) == 0


@pytest.mark.parametrize(
    ("attributes", "size", "times"),
    [
        ("ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [2]", "4", 1),
        ("ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [2]", "5", 0),  # every window fits
        ("ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [2]", "L", 1),
        ("ceil_mode = 1, count_include_pad = 0, pads = [1, 1], strides = [2]", "4", 0),
        ("ceil_mode = 0, count_include_pad = 1, pads = [1, 1], strides = [2]", "4", 0),
        ("ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [1]", "4", 0),
    ],
)
def test_averages_that_look_beyond_counted_padding(
    attributes: str, size: str, times: int, tmp_path: Path
) -> None:
    body = f"y = AveragePool <kernel_shape = [3], {attributes}> (x)"
    assert fired(POOLING, f"(float[1, 2, {size}] x) => (float[a, b, c] y)", body, tmp_path, opset=19) == times


FLOATS = np.linspace(-3, 4, 24, dtype=np.float32).reshape(4, 6)
BYTES = np.arange(0, 240, 10, dtype=np.uint8)


@pytest.mark.parametrize("opset", [6, 7, 8, 9, 10, 11, 12])
@pytest.mark.parametrize(
    ("signature", "body", "x"),
    [
        ("(float[4, 6] x) => (float[4, 6] y)", "y = LogSoftmax <axis = 1> (x)", FLOATS),
        ("(float[4, 6] x) => (float[4, 1] y)", "y = ReduceLogSumExp <axes = [1]> (x)", FLOATS),
        ("(uint8[24] x) => (float[24] y)", "b = Cast <to = 9> (x) y = Cast <to = 1> (b)", BYTES),
        ("(uint8[24] x) => (int32[24] y)", "b = Cast <to = 3> (x) y = Cast <to = 6> (b)", BYTES),
        ("(float16[4, 6] x) => (float16[4, 6] y)", "y = Mean (x, x)", FLOATS.astype(np.float16)),
        ("(float16[4, 6] x) => (float16[4, 6] y)", "y = LpNormalization (x)", FLOATS.astype(np.float16)),
        (
            "(float[4, 6] x) => (float y)",
            "a = Softmax <axis = 1> (x) y = ReduceSum <axes = [0, 1], keepdims = 0> (a)",
            FLOATS,
        ),
        (
            "(float[N, M] x) => (float[P, Q] y)",
            "a = Softmax <axis = 1> (x) m = ReduceMax <axes = [0]> (a) y = ReduceSum <axes = [1]> (m)",
            FLOATS,
        ),
    ],
)
def test_older_opsets_stay_right(
    signature: str, body: str, x: np.ndarray, opset: int, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 4, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    )
    onnx.save(model, tmp_path / "m.onnx")
    loaded = load_model(tmp_path / "m.onnx")
    result = rewrite(loaded, target=RTX)
    found, expected = (run(graph, {"x": x})["y"] for graph in (result.model, loaded))
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("first", ["a = ReduceSum (x)", "a = LpNormalization (x)"])
def test_a_number_has_no_axis_to_reduce(first: str, opset: int, tmp_path: Path) -> None:
    body = f"{first} b = Div (x, a) y = ReduceMax (b)"
    text = f'<ir_version: 6, opset_import: ["" : {opset}]> g (float x) => (float y) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert rewrite(load_model(tmp_path / "m.onnx"), target=RTX).rewrites == ()


def test_nodes_that_folding_hides_from_the_rules_do_not_come_back(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 19]> g (float[3] x) => (float[3] y, float[1, 1, 3, 1] z)
        <float[1, 1, 4] w = {1, 2, 3, 4}, int64[1] axis = {3}> {
            a = AveragePool <kernel_shape = [3], ceil_mode = 1, count_include_pad = 1, pads = [1, 1], strides = [2]> (w)
            z = Unsqueeze (a, axis)
            y = Relu (x)
        }"""
    )
    onnx.save(model, tmp_path / "m.onnx")
    result = rewrite(load_model(tmp_path / "m.onnx"), target=RTX)
    assert [node.op_type for node in result.model.proto.graph.node] == ["Unsqueeze", "Relu"]
    whole = "a = AveragePool <kernel_shape = [2]> (w)"
    model.graph.node[0].CopyFrom(onnx.parser.parse_node(whole))
    onnx.save(model, tmp_path / "m.onnx")
    untouched = rewrite(load_model(tmp_path / "m.onnx"), target=RTX)
    assert [node.op_type for node in untouched.model.proto.graph.node] == ["AveragePool", "Unsqueeze", "Relu"]


FILTERS = "(float[n, 4, 9, 9] x, float[4, 1, 5, 5] k5, float[4, 1, 3, 3] k3) => (float[n, 4, p, q] y)"
PADS5, PADS3 = "pads = [2, 2, 2, 2]", "pads = [1, 1, 1, 1]"


@pytest.mark.parametrize(
    ("signature", "body", "times"),
    [
        # what is wrong, with other sizes of the image and other operators in between, too
        (FILTERS, f"a = Conv <group = 4, {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)", 1),
        (
            FILTERS,
            f"""a = Conv <group = 4, {PADS5}> (x, k5) r = Relu (a) p = MaxPool <kernel_shape = [2, 2]> (r)
            z = Conv <group = 4, {PADS3}> (p, k3) y = Relu (z)""",
            1,
        ),
        # one size, sizes that do not range, another type
        (FILTERS, f"a = Conv <group = 4, {PADS3}> (x, k3) y = Conv <group = 4, {PADS3}> (a, k3)", 0),
        (
            FILTERS.replace("[n, 4, 9", "[2, 4, 9"),
            f"a = Conv <group = 4, {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)",
            0,
        ),
        (
            FILTERS.replace("float", "float16"),
            f"a = Conv <group = 4, {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)",
            0,
        ),
        # other strides, dilations, channels of a group; filters of one column
        (
            FILTERS,
            f"a = Conv <group = 4, strides = [2, 2], {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)",
            0,
        ),
        (
            FILTERS,
            f"a = Conv <group = 4, dilations = [2, 2], {PADS5}> (x, k5) y = Conv <group = 4, {PADS3}> (a, k3)",
            0,
        ),
        (
            FILTERS.replace("[4, 1", "[4, 2"),
            f"a = Conv <group = 2, {PADS5}> (x, k5) y = Conv <group = 2, {PADS3}> (a, k3)",
            0,
        ),
        (
            FILTERS.replace("5, 5] k5", "5, 1] k5").replace("3, 3] k3", "3, 1] k3"),
            "a = Conv <group = 4> (x, k5) y = Conv <group = 4> (a, k3)",
            0,
        ),
    ],
)
def test_depthwise_filters(signature: str, body: str, times: int, tmp_path: Path) -> None:
    assert fired(DEPTHWISE_FILTERS, signature, body, tmp_path) == times


@pytest.mark.parametrize(
    ("body", "times"),
    [
        ("m = MatMul (x, square) p = Add (m, g6) a = Relu (p) y = Mul (z, a)", 1),
        ("p = Gemm (x, square, g6) c = Cast <to = 1> (p) a = Gelu (c) y = Mul (a, z)", 1),
        (
            "m = MatMul (x, square) p = Sub (m, g6) h = Transpose (p) q = Transpose (h) a = Relu (q) y = Mul (z, a)",
            1,
        ),
        ("m = MatMul (x, square) p = Add (m, g6) a = Gelu (p) y = Mul (a, g1)", 1),
        # no bias, a sum that is no bias, another gate, no product of matrices
        ("p = MatMul (x, square) a = Relu (p) y = Mul (z, a)", 0),
        ("m = MatMul (x, square) p = Add (m, z) a = Relu (p) y = Mul (z, a)", 0),
        ("m = MatMul (x, square) p = Add (m, g6) a = Sigmoid (p) y = Mul (z, a)", 0),
        ("p = Add (z, g6) a = Relu (p) y = Mul (z, a)", 0),
        (
            "m = MatMul (x, square) p = Add (m, g6) e = Erf (p) t = Add (e, g6) a = Mul (p, t) y = Mul (z, a)",
            0,
        ),
    ],
)
def test_gated_bias(body: str, times: int, tmp_path: Path) -> None:
    assert fired(GATED_BIAS, "(float[5, 6] x, float[5, 6] z) => (float[5, 6] y)", body, tmp_path, 20) == times


_FIRST, _SECOND = "c = Constant <value = int64[1] {0}> () ", "y = GridSample (u, g)"


@pytest.mark.parametrize(
    ("x", "y", "body", "times"),
    [
        ("[2, 5, 6]", "[1, 2, 3, 4]", f"{_FIRST} u = Unsqueeze (x, c) {_SECOND}", 1),
        ("[2, 5, 6]", "[1, 2, 3, 4]", f"{_FIRST} k = Unsqueeze (x, c) u = Relu (k) {_SECOND}", 1),
        # four axes all along, five merged, an image that a Transpose gives
        ("[1, 2, 5, 6]", "[1, 2, 3, 4]", f"u = Relu (x) {_SECOND}", 0),
        ("[1, 1, 2, 5, 6]", "[1, 2, 3, 4]", f"{_FIRST} u = Squeeze (x, c) {_SECOND}", 0),
        (
            "[2, 6, 5]",
            "[1, 2, 3, 4]",
            f"{_FIRST} k = Unsqueeze (x, c) u = Transpose <perm = [0, 1, 3, 2]> (k) {_SECOND}",
            0,
        ),
    ],
)
def test_grid_sample_ranks(x: str, y: str, body: str, times: int, tmp_path: Path) -> None:
    signature = f"(float{x} x, float[1, 3, 4, 2] g) => (float{y} y)"
    assert fired(GRID_SAMPLE_RANKS, signature, body, tmp_path) == times

"""Which nodes are reduced, and where and how many Casts there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.precision.networks import (
    Changed,
    T,
    casts,
    made_in,
    network,
    normal,
    reduce_model,
    types_of,
)
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format

CONVOLUTIONS = """(float[N,3,8,8] x) => (float[N,4,8,8] y) {
    [first] a = Conv <pads = [1,1,1,1]> (x, w1)
    [relu] b = Relu (a)
    [second] c = Conv <pads = [1,1,1,1]> (b, w2)
    [sum] d = Add (b, c)
    [last] y = Sigmoid (d)
}"""
WEIGHTS = {"w1": normal(4, 3, 3, 3, scale=0.2), "w2": normal(4, 4, 3, 3, scale=0.2)}


def reasons(reduced: Changed) -> dict[str, str]:
    return {kept.node: kept.reason for kept in reduced.report.kept}


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_a_network_of_convolutions_has_a_cast_at_each_end_and_none_inside(
    tmp_path: Path, fmt: Format
) -> None:
    reduced = reduce_model(network(tmp_path, CONVOLUTIONS, WEIGHTS), fmt)
    assert made_in(reduced.model) == dict.fromkeys(("first", "relu", "second", "sum", "last"), fmt.elem)
    assert [(c.input[0], c.attribute[0].i) for c in casts(reduced.model)] == [
        ("x", fmt.elem),
        (f"y/{fmt.name}", T.FLOAT),
    ]
    assert reduced.report.reduced == 5 and reduced.report.kept == () and reduced.report.casts == 2
    graph = reduced.model.proto.graph
    assert [v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)] == [T.FLOAT, T.FLOAT]
    assert reduced.io_types == ()


def test_interface_types_change_when_asked(tmp_path: Path) -> None:
    reduced = reduce_model(network(tmp_path, CONVOLUTIONS, WEIGHTS), FP16, reduced_io=True)
    graph = reduced.model.proto.graph
    assert [v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)] == [T.FLOAT16, T.FLOAT16]
    assert casts(reduced.model) == []
    assert [(io.name, io.before, io.after) for io in reduced.io_types] == [
        ("x", "float32", "float16"),
        ("y", "float32", "float16"),
    ]


def test_interface_types_change_where_nothing_else_does(tmp_path: Path) -> None:
    """Not a Cast is needed, nor a weight: only types are others."""
    model = network(tmp_path, "(float[4,8] x, float[8,8] z) => (float[4,8] y) { [m] y = MatMul (x, z) }")
    before = model.proto.SerializeToString()
    reduced = reduce_model(model, FP16, reduced_io=True)
    types = types_of(reduced.model)
    assert {types[name] for name in ("x", "z", "y")} == {T.FLOAT16}
    assert [io.name for io in reduced.io_types] == ["x", "z", "y"]
    assert model.proto.SerializeToString() == before


def test_an_output_that_is_kept_is_cast_to_the_interface_s_type(tmp_path: Path) -> None:
    body = "(float[8,8] x) => (float[8,8] y) { [m] a = MatMul (x, w) [s] y = Softmax (a) }"
    model = network(tmp_path, body, {"w": normal(8, 8)})
    reduced = reduce_model(model, FP16, reduced_io=True)
    assert made_in(reduced.model) == {"m": T.FLOAT16, "s": T.FLOAT}
    assert types_of(reduced.model)["y"] == T.FLOAT16


NORM = """(float[N,16] x) => (float[N,16] y) {
    [before] h = MatMul (x, w1)
    [mean] m = ReduceMean <keepdims = 1> (h, axes)
    [centre] d = Sub (h, m)
    [square] s = Pow (d, two)
    [variance] v = ReduceMean <keepdims = 1> (s, axes)
    [shifted] e = Add (v, eps)
    [root] r = Sqrt (e)
    [quotient] q = Div (d, r)
    [gain] g = Mul (q, gamma)
    [bias] b = Add (g, beta)
    [after] y = MatMul (b, w2)
}"""
NORM_WEIGHTS = {
    "w1": normal(16, 16), "w2": normal(16, 16, seed=1), "gamma": normal(16), "beta": normal(16, seed=2),
    "axes": np.array([-1]), "two": np.array(2, np.float32), "eps": np.array(1e-5, np.float32),
}  # fmt: skip


def test_a_norm_written_out_is_one_region_of_float32(tmp_path: Path) -> None:
    reduced = reduce_model(network(tmp_path, NORM, NORM_WEIGHTS, opset=18), FP16)
    made = made_in(reduced.model)
    inside = {"mean", "centre", "square", "variance", "shifted", "root", "quotient", "gain", "bias"}
    assert {name for name, elem in made.items() if elem == T.FLOAT} == inside
    assert set(reasons(reduced)) == {"mean", "square", "variance", "shifted", "root", "quotient"}
    assert "normal range" in reasons(reduced)["shifted"]  # the epsilon
    # x in, the norm's input out of float16, its result back into it, y out
    assert len(casts(reduced.model)) == 4
    assert reduced.report.beside == 3


@pytest.mark.parametrize(
    "operator",
    [
        "Softmax",
        "Exp",
        "LogSoftmax",
        "ReduceL2 <keepdims = 1>",
        "GlobalLpPool",
        "Sqrt",
        "Reciprocal",
        "Softplus",
    ],
)
def test_overflow_prone_operators_stay_and_say_why(tmp_path: Path, operator: str) -> None:
    body = f"(float[1,4,8,8] x) => (float[1,4,h,w] y) {{ [c] a = Conv (x, w0)\n [op] y = {operator} (a) }}"
    reduced = reduce_model(network(tmp_path, body, {"w0": normal(4, 4, 1, 1)}), FP16)
    assert made_in(reduced.model)["op"] == T.FLOAT
    assert reasons(reduced)["op"]
    assert made_in(reduced.model)["c"] == T.FLOAT16


def test_a_division_by_a_constant_is_a_multiplication(tmp_path: Path) -> None:
    body = """(float[8,8] x) => (float[8,8] y) {
        [m] a = MatMul (x, w)
        [by_constant] b = Div (a, six)
        [n] c = MatMul (b, w)
        [by_value] d = Div (c, b)
        [o] y = MatMul (d, w) }"""
    model = network(tmp_path, body, {"w": normal(8, 8), "six": np.array(6, np.float32)})
    made = made_in(reduce_model(model, FP16).model)
    assert made["by_constant"] == T.FLOAT16 and made["by_value"] == T.FLOAT


def test_no_cast_reads_a_cast_and_no_value_is_cast_twice(tmp_path: Path) -> None:
    """Casts of the model itself: from integers, and one that was there already."""
    body = """(float[8,8] x, int64[8,8] ids) => (float[8,8] y, float[8,8] z) {
        [f] f = Cast <to = 1> (ids)
        [m] a = MatMul (f, w)
        [n] b = MatMul (f, a)
        [h] h = Cast <to = 10> (b)
        [back] k = Cast <to = 1> (h)
        [o] c = MatMul (k, w)
        [e] y = Softmax (c)
        [e2] z = Softmax (c) }"""
    reduced = reduce_model(network(tmp_path, body, {"w": normal(8, 8)}), FP16)
    found = casts(reduced.model)
    makers = {out: node for node in found for out in node.output}
    assert not [c.name for c in found if c.input[0] in makers]
    pairs = [(c.input[0], c.attribute[0].i) for c in found]
    assert len(pairs) == len(set(pairs))
    assert sorted(pairs) == [("c", T.FLOAT), ("ids", T.FLOAT16)]


def test_shapes_indices_and_sizes_are_untouched(tmp_path: Path) -> None:
    body = """(float[N,4,8,8] x, int64[2] sizes) => (float[N,4,h,w] y) {
        [c] a = Conv (x, w0)
        [s] s = Shape (a)
        [half] r = Resize <mode = "linear"> (a, , scales)
        [cc] y = Conv (r, w0) }"""
    model = network(
        tmp_path, body, {"w0": normal(4, 4, 1, 1), "scales": np.array([1, 1, 0.5, 0.5], np.float32)}
    )
    reduced = reduce_model(model, BF16)
    assert made_in(reduced.model)["half"] == T.BFLOAT16
    assert types_of(reduced.model)["scales"] == T.FLOAT
    assert next(n for n in reduced.model.proto.graph.node if n.name == "half").input[2] == "scales"


def test_what_becomes_an_index_is_not_rounded(tmp_path: Path) -> None:
    """y * width + x in float16 is wrong from 2,049 on; the layer before it may be reduced."""
    body = """(float[8,8] x, float[100,4] table) => (float[8,8,4] y) {
        [layer] a = MatMul (x, w)
        [scaled] b = Mul (a, k)
        [floor] c = Floor (b)
        [clipped] d = Clip (c, lo, hi)
        [index] i = Cast <to = 7> (d)
        [y] y = Gather (table, i) }"""
    weights = {"w": normal(8, 8), "k": np.array(100, np.float32)}
    weights |= {"lo": np.array(0, np.float32), "hi": np.array(99, np.float32)}
    reduced = reduce_model(network(tmp_path, body, weights), FP16)
    made = made_in(reduced.model)
    assert {n: made[n] for n in ("layer", "scaled", "floor", "clipped")} == {
        "layer": T.FLOAT16, "scaled": T.FLOAT, "floor": T.FLOAT, "clipped": T.FLOAT,
    }  # fmt: skip
    assert reasons(reduced)["floor"] == "its result becomes an index"


@pytest.mark.parametrize("opset", [13, 19])
def test_what_is_quantized_and_becomes_an_index_is_not_rounded(opset: int, tmp_path: Path) -> None:
    """A value just below the middle between two steps would be quantized to the upper one."""
    body = """(float[8,8] x, float[100,4] table) => (float[8,8,4] y) {
        [layer] a = MatMul (x, w)
        [scaled] b = Mul (a, k)
        [quantize] q = QuantizeLinear (b, step, zero)
        [dequantize] d = DequantizeLinear (q, step, zero)
        [index] i = Cast <to = 7> (d)
        [y] y = Gather (table, i) }"""
    weights = {"w": normal(8, 8), "k": np.array(9, np.float32)}
    weights |= {"step": np.array(1, np.float32), "zero": np.array(-128, np.int8)}
    reduced = reduce_model(network(tmp_path, body, weights, opset=opset), FP16)
    made = made_in(reduced.model)
    assert made["layer"] == T.FLOAT16 and made["scaled"] == made["dequantize"] == T.FLOAT
    why = "its result becomes an index"
    assert reasons(reduced) == {"scaled": why, "quantize": why, "dequantize": why}


SAMPLING = """(float[1,4,8,8] x, float[1,6,8] q) => (float[1,4,1,6] y) {
    [features] f = Conv (x, w0)
    [predict] o = MatMul (q, w1)
    [turn] t = MatMul (o, rotation)
    [moved] p = Add (t, centre)
    [grid] g = Unsqueeze (p, one)
    [sample] s = GridSample (f, g)
    [after] y = Conv (s, w0) }"""
SAMPLING_WEIGHTS = {
    "w0": normal(4, 4, 1, 1), "w1": normal(8, 2), "rotation": normal(2, 2), "centre": normal(1, 6, 2),
    "one": np.array([1]),
}  # fmt: skip


def test_positions_are_exact_from_the_layer_that_predicts_them(tmp_path: Path) -> None:
    """float16 has digits enough to read at a position once it is computed, bfloat16 has not."""
    model = network(tmp_path, SAMPLING, SAMPLING_WEIGHTS)
    half, brain = (made_in(reduce_model(model, fmt).model) for fmt in (FP16, BF16))
    for made in (half, brain):
        assert {made[n] for n in ("turn", "moved", "grid")} == {T.FLOAT}
        assert made["predict"] == made["features"] != T.FLOAT
    assert half["sample"] == T.FLOAT16 and brain["sample"] == T.FLOAT


@pytest.mark.parametrize(("width", "kept"), [(640, T.FLOAT16), (641, T.FLOAT)])
def test_large_images_are_read_at_positions_in_float32(width: int, kept: int, tmp_path: Path) -> None:
    wide = SAMPLING.replace("float[1,4,8,8] x", f"float[1,4,8,{width}] x")
    made = made_in(reduce_model(network(tmp_path, wide, SAMPLING_WEIGHTS), FP16).model)
    assert made["sample"] == kept and made["features"] == made["after"] == T.FLOAT16


def test_angles_are_exact(tmp_path: Path) -> None:
    body = """(float[8,8] x) => (float[8,8] y) {
        [m] a = MatMul (x, w)
        [t] b = Mul (a, k)
        [s] c = Sin (b)
        [n] y = MatMul (c, w) }"""
    weights = {"w": normal(8, 8), "k": np.array(1000, np.float32)}
    made = made_in(reduce_model(network(tmp_path, body, weights), FP16).model)
    assert made == {"m": T.FLOAT16, "t": T.FLOAT, "s": T.FLOAT, "n": T.FLOAT16}


def test_what_tensorrt_does_not_build_stays(tmp_path: Path) -> None:
    body = "(float[1,4,8,8] x) => (float[1,4,16,16] y) { [d] y = ConvTranspose <strides = [2,2]> (x, w0) }"
    model = network(tmp_path, body, {"w0": normal(4, 4, 2, 2)})
    brain = reduce_model(model, BF16)
    assert "TensorRT does not build it in bfloat16" in reasons(brain)["d"]
    assert casts(brain.model) == [] and brain.report.reduced == 0
    assert made_in(reduce_model(model, FP16).model)["d"] == T.FLOAT16


def test_a_plugin_takes_the_type_of_its_ports(tmp_path: Path) -> None:
    body = """(float[1,40,2,8] v, float[1,5,2,1,4,2] at, float[1,5,2,1,4] k) => (float[1,5,16] y) {
        [msda] a = trtsmith.MultiscaleDeformableAttention <plugin_version = "1", plugin_namespace = "trtsmith">
            (v, shapes, starts, at, k)
        [m] y = MatMul (a, w) }"""
    weights = {"shapes": np.array([[5, 8]]), "starts": np.array([0]), "w": normal(16, 16)}
    model = network(tmp_path, body, weights)
    half = reduce_model(model, FP16)
    node = next(n for n in half.model.proto.graph.node if n.name == "msda")
    types = types_of(half.model)
    assert [types[name] for name in node.input] == [T.FLOAT16, T.INT64, T.INT64, T.FLOAT16, T.FLOAT16]
    brain = reduce_model(model, BF16)
    assert made_in(brain.model) == {"msda": T.FLOAT, "m": T.BFLOAT16}


def test_an_inverse_stays(tmp_path: Path) -> None:
    body = """(float[2,4,4] x) => (float[2,4,4] y) {
        [inv] y = trtsmith.MatrixInverse <plugin_version = "1", plugin_namespace = "trtsmith"> (x) }"""
    reduced = reduce_model(network(tmp_path, body), FP16)
    assert "condition number" in reasons(reduced)["inv"]


def test_unknown_operators_get_what_they_got_before(tmp_path: Path) -> None:
    body = """(float[8,8] x) => (float[8,8] y) {
        [m] a = MatMul (x, w)
        [custom] b = trtsmith.SomebodyElses (a)
        [n] y = MatMul (b, w) }"""
    model = network(tmp_path, body, {"w": normal(8, 8)})
    reduced = reduce_model(model, FP16)
    node = next(n for n in reduced.model.proto.graph.node if n.name == "custom")
    cast = next(c for c in casts(reduced.model) if c.output[0] == node.input[0])
    assert cast.input[0] == "a" and cast.attribute[0].i == T.FLOAT
    assert "types" in reasons(reduced)["custom"]


def test_an_opset_without_bfloat16_is_converted(tmp_path: Path) -> None:
    body = """(float[N,8] x) => (float[N,8] y) { [m] a = MatMul (x, w)
        [s] b = Softmax <axis = 1> (a)
        [n] y = MatMul (b, w) }"""
    model = network(tmp_path, body, {"w": normal(8, 8)}, opset=11)
    reduced = reduce_model(model, BF16)
    opset = next(o.version for o in reduced.model.proto.opset_import if not o.domain)
    assert opset == 13
    made = made_in(reduced.model)
    assert made["m"] == made["s"] == made["n"] == T.BFLOAT16
    onnx.checker.check_model(reduced.model.proto, full_check=False)
    assert next(o.version for o in reduce_model(model, FP16).model.proto.opset_import if not o.domain) == 11


def test_the_statistics_of_a_batch_norm_stay_exact(tmp_path: Path) -> None:
    """TensorRT takes them beside a reduced input, and ONNX from opset 15 on; a variance of 1e8 is beyond float16."""
    body = """(float[1,4,8,8] x) => (float[1,4,8,8] y) {
        [c] a = Conv (x, w0)
        [r] r = Relu (a)
        [bn] b = BatchNormalization (r, s, s, s, v)
        [d] y = Conv (b, w0) }"""
    weights = {"w0": normal(4, 4, 1, 1), "s": normal(4), "v": np.full(4, 1e8, np.float32)}
    reduced = reduce_model(network(tmp_path, body, weights, opset=15), FP16)
    assert made_in(reduced.model)["bn"] == T.FLOAT16
    node = next(n for n in reduced.model.proto.graph.node if n.name == "bn")
    assert list(node.input[1:]) == ["s", "s", "s", "v"]
    assert types_of(reduced.model)["v"] == T.FLOAT
    assert "beyond" in reasons(reduce_model(network(tmp_path, body, weights, opset=14), FP16))["bn"]


def test_what_is_only_wanted_in_float32_is_made_in_it(tmp_path: Path) -> None:
    body = """(int64[5] ids) => (float[5,4] y) {
        [rows] a = Gather (table, ids)
        [custom] y = trtsmith.SomebodyElses (a) }"""
    reduced = reduce_model(network(tmp_path, body, {"table": normal(9, 4)}), FP16)
    assert made_in(reduced.model)["rows"] == T.FLOAT and casts(reduced.model) == []


@pytest.mark.parametrize("mean", ["GlobalAveragePool (a)", "ReduceMean <keepdims = 1> (a, axes)"])
def test_a_mean_of_a_map_is_in_the_type_of_its_neighbours(tmp_path: Path, mean: str) -> None:
    body = f"""(float[1,4,8,8] x) => (float[1,4,1,1] y) {{
        [c] a = Conv (x, w)
        [mean] b = {mean}
        [d] y = Conv (b, w) }}"""
    model = network(tmp_path, body, {"w": normal(4, 4, 1, 1), "axes": np.array([2, 3])})
    reduced = reduce_model(model, FP16)
    assert not reduced.report.kept and made_in(reduced.model)["mean"] == T.FLOAT16


@pytest.mark.parametrize(
    "norm",
    [
        "[mean] m = ReduceMean (a, axes)\n z = Sub (a, m)",
        "s = Mul (a, a)\n [mean] m = ReduceMean (s, axes)\n z = Mul (a, m)",
        "s = Pow (a, two)\n [mean] m = ReduceMean (s, axes)\n z = Mul (a, m)",
        "s = Abs (a)\n [mean] m = ReduceMean (s, axes)\n z = Mul (a, m)",
        "[mean] m = ReduceMean (a, axes)\n e = Add (m, two)\n r = Sqrt (e)\n z = Mul (a, r)",
        "[mean] m = ReduceMean (a, axes)\n z = Div (a, m)",
    ],
)
def test_a_mean_of_a_norm_stays(tmp_path: Path, norm: str) -> None:
    body = f"(float[4,8] x) => (float[4,8] y) {{ a = MatMul (x, w)\n {norm}\n y = MatMul (z, w) }}"
    weights = {"w": normal(8, 8), "axes": np.array([1]), "two": np.float32(2)}
    reduced = reduce_model(network(tmp_path, body, weights), FP16)
    assert made_in(reduced.model)["mean"] == T.FLOAT


def test_third_powers_that_were_seen_in_range_follow(tmp_path: Path) -> None:
    """As in GELU by a tanh. Second powers are of variances, and stay."""
    body = "(float[4,8] x) => (float[4,8] y) { a = MatMul (x, w)\n [p] b = Pow (a, n)\n y = MatMul (b, w) }"
    cubes, squares = (network(tmp_path, body, {"w": normal(8, 8), "n": np.float32(n)}) for n in (3, 2))
    assert made_in(reduce_model(cubes, FP16).model)["p"] == T.FLOAT
    assert made_in(reduce_model(cubes, FP16, seen={"b": 900.0}).model)["p"] == T.FLOAT16
    assert made_in(reduce_model(cubes, FP16, seen={"b": 9e4}).model)["p"] == T.FLOAT
    assert made_in(reduce_model(squares, FP16, seen={"b": 90.0}).model)["p"] == T.FLOAT

"""Scales and shifts behind convolutions: which are folded into the weights, with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.rewrite.precision.networks import T, error_of, network, normal, reduce_model, types_of
from tests.converter.rewrite.running import loaded
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.affine import fold_affine
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import BF16, FP16, Format
from trtsmith.converter.rewrite.precision.sums import LONGEST
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.registry import by_name

FEEDS = {"x": normal(2, 6, 5, 4)}
WEIGHTS = {
    "k": normal(8, 6, 3, 3, seed=1),
    "b": normal(8, seed=2),
    "t": normal(6, 8, 2, 2, seed=3),
    "s": normal(8, seed=4),
    "m": normal(8, seed=5),
    "v": np.abs(normal(8, seed=6)) + 0.1,
    "c": normal(8, 1, 1, seed=7),
    "c1": normal(1, 8, 1, 1, seed=8),
    "one": normal(1, seed=9),
    "wide": normal(5, 4, seed=10),
    "g": normal(8, 3, 3, 3, seed=11),
    "t2": normal(6, 4, 2, 2, seed=12),
}


def folded(model: Model, fmt: Format = BF16) -> tuple[Model, tuple[str, ...]]:
    graph = Graph(model)
    names = fold_affine(graph, fmt, (), Converted(graph, T.FLOAT))
    graph.infer()
    return graph.model(), names


def net(folder: Path, lines: str) -> Model:
    return network(
        folder, f"(float[N,6,5,4] x) => (float[N,8,h,w] y) {{ {lines} }}", named_in(lines, WEIGHTS)
    )


def named_in(lines: str, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    words = set(re.findall(r"\w+", lines))
    return {name: array for name, array in weights.items() if name in words}


FOLDED = [
    ("[conv] a = Conv (x, k) [n] y = BatchNormalization (a, s, b, m, v)", "n"),
    ("[conv] a = Conv (x, k, b) [n] y = BatchNormalization <epsilon = 0.5> (a, s, b, m, v)", "n"),
    ("[conv] a = Conv (x, k, b) [u] d = Mul (a, one) [w] y = Add (d, c)", "u w"),
    ("[conv] a = Conv (x, k) [u] d = Mul (c1, a) [w] e = Sub (d, one) [z] y = Relu (e)", "u w"),
    ("[conv] a = Conv (x, k, b) [u] d = Sub (c, a) [w] y = Div (d, one)", "u w"),
    ("[conv] a = ConvTranspose <strides = [2, 2]> (x, t, b) [u] y = Mul (a, c)", "u"),
    ("[conv] a = ConvTranspose (x, t) [n] y = BatchNormalization (a, s, b, m, v)", "n"),
    ("[conv] a = Conv <group = 2> (x, g) [u] y = Mul (a, c)", "u"),
]
LEFT = [
    "a = Conv (x, k) y = Mul (a, a)",
    "a = Conv (x, k) d = Mul (a, c) e = Relu (a) y = Add (d, e)",
    "a = Conv (x, k) y = Div (c, a)",
    "a = Conv <pads = [1, 1, 1, 1]> (x, k) y = Mul (a, wide)",
    "a = Conv (x, k) d = Relu (a) y = Mul (d, c)",
    "w2 = Abs (k) a = Conv (x, w2) y = Mul (a, c)",
    "a = Conv (x, k) e = Identity (a) y = Mul (e, c)",
    "a = ConvTranspose <group = 2> (x, t2) y = Mul (a, c)",
    "a = ConvTranspose <group = 2> (x, t2) y = Add (a, one)",
    "a = Conv (x, k) p, q, r = BatchNormalization <training_mode = 1> (a, s, b, m, v) y = Identity (p)",
]  # fmt: skip


@pytest.mark.parametrize(("lines", "gone"), FOLDED, ids=[lines for lines, _ in FOLDED])
def test_the_numbers_stay(tmp_path: Path, lines: str, gone: str) -> None:
    model = net(tmp_path, lines)
    result, names = folded(model)
    assert list(names) == gone.split()
    ops = [node.op_type for node in result.proto.graph.node]
    assert not {"Mul", "Add", "Sub", "Div", "BatchNormalization"}.intersection(ops)
    read = {name for node in result.proto.graph.node for name in node.input}
    assert {t.name for t in result.proto.graph.initializer} == read - {"x", "a", "e"}
    exact, found = run(model, FEEDS)["y"], run(result, FEEDS)["y"]
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())


@pytest.mark.parametrize("lines", LEFT)
def test_what_is_no_scale_of_channels_is_left(tmp_path: Path, lines: str) -> None:
    model = net(tmp_path, lines)
    result, names = folded(model)
    assert names == () and list(result.proto.graph.node) == list(model.proto.graph.node)


def test_a_result_that_others_see_is_left(tmp_path: Path) -> None:
    body = "(float[N,6,5,4] x) => (float[N,8,h,w] a, float[N,8,h,w] y) { a = Conv (x, k) y = Mul (a, c) }"
    model = network(tmp_path, body, {"k": WEIGHTS["k"], "c": WEIGHTS["c"]})
    assert folded(model)[1] == ()


def test_what_does_not_become_a_number_is_left(tmp_path: Path) -> None:
    huge = np.full((8, 1, 1), 3e38, np.float32)
    lines = "{ a = Conv (x, k) y = Mul (a, c) }"
    body = f"(float[N,6,5,4] x) => (float[N,8,h,w] y) {lines}"
    assert folded(network(tmp_path, body, {"k": WEIGHTS["k"] * 10, "c": huge}))[1] == ()
    norm = body.replace("Mul (a, c)", "BatchNormalization (a, s, b, m, v)")
    weights = {name: WEIGHTS[name] for name in "ksbm"} | {"v": -np.ones(8, np.float32)}
    assert folded(network(tmp_path, norm, weights))[1] == ()


LAYERS = """(float[N,6,5,4] x) => (float[N,8,h,w] y) {
    [conv] a = Conv (x, k)
    [norm] d = BatchNormalization (a, s, b, m, v)
    [scale] y = Mul (d, c)
}"""


def layers(folder: Path) -> Model:
    return network(folder, LAYERS, {name: WEIGHTS[name] for name in "ksbmvc"})


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_weights_are_rounded_once(tmp_path: Path, fmt: Format) -> None:
    """The error is that of the weights, the input and the result; scales that were rounded too would add theirs."""
    model = layers(tmp_path)
    reduced = reduce_model(model, fmt)
    assert reduced.report.folded == ("norm", "scale")
    assert "2 folded into convolutions" in reduced.report.summary()
    assert [node.op_type for node in reduced.model.proto.graph.node] == ["Cast", "Conv", "Cast"]
    assert {types_of(reduced.model)[t.name] for t in reduced.model.proto.graph.initializer} == {fmt.elem}
    assert 0 < error_of(reduced.model, model, FEEDS) < 1.2 * 2.0**-fmt.digits


def test_what_is_kept_in_float32_is_not_folded(tmp_path: Path) -> None:
    reduced = reduce_model(layers(tmp_path), FP16, keep=["scale"])
    assert reduced.report.folded == ("norm",) and [k.node for k in reduced.report.kept] == ["scale"]
    again = reduce_model(layers(tmp_path), FP16, decided={"scale": "asked"})
    assert again.model.proto == reduced.model.proto
    everything = reduce_model(layers(tmp_path), FP16, keep=["BatchNormalization"])
    assert everything.report.folded == () and types_of(everything.model)["y"] == T.FLOAT


def test_convolutions_inside_branches_are_folded(tmp_path: Path) -> None:
    body = """(bool c0, float[N,6,5,4] x) => (float[N,8,h,w] y) {
        y = If (c0) <then_branch = one () => (float[N,8,h,w] p) { a = Conv (x, k) p = Mul (a, c) },
                     else_branch = two () => (float[N,8,h,w] q) { q = Conv (x, k) }>
    }"""
    model = network(tmp_path, body, {name: WEIGHTS[name] for name in "kc"})
    reduced = reduce_model(model, FP16)
    assert len(reduced.report.folded) == 1
    for choice in (True, False):
        assert error_of(reduced.model, model, {"c0": np.array(choice), **FEEDS}) < 2e-3


FIELDS = {"stride": (1, 1), "padding": (0,) * 4, "dilation": (1, 1), "groups": 1, "offset_groups": 1}


@pytest.mark.parametrize(("masked", "bias"), [(True, ""), (True, ", b"), (False, ""), (False, ", b")])
def test_deformable_convolutions_are_folded(tmp_path: Path, masked: bool, bias: str) -> None:
    """TensorRT folds nothing into the weights of a plugin."""
    op = "ModulatedDeformableConvolution" if masked else "DeformableConvolution"
    arguments = f"x, offset, {'mask, ' if masked else ''}k{bias}"
    fields = plugin_attributes(by_name()[op], FIELDS)
    attributes = ", ".join(
        f'{n} = "{v}"' if isinstance(v, str) else f"{n} = {v!r}" for n, v in fields.items()
    )
    body = f"""(float[N,6,5,4] x, float[N,18,3,2] offset, float[N,9,3,2] mask) => (float[N,8,3,2] y) {{
        a = trtsmith.{op} <{attributes}> ({arguments})
        [norm] d = BatchNormalization (a, s, b, m, v)
        [last] y = Relu (d)
    }}"""
    model = network(tmp_path, body, {name: WEIGHTS[name] for name in "ksbmv"})
    result, names = folded(model)
    assert names == ("norm",) and [node.op_type for node in result.proto.graph.node] == [op, "Relu"]
    assert len(result.proto.graph.node[0].input) == (5 if masked else 4)
    feeds = {**FEEDS, "offset": normal(2, 18, 3, 2, seed=20), "mask": np.abs(normal(2, 9, 3, 2, seed=21))}
    exact, found = run(expand(model), feeds)["y"], run(expand(result), feeds)["y"]
    assert np.abs(exact).max() > 0.1
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())


def test_large_weights_are_in_a_file_and_not_in_the_model(tmp_path: Path) -> None:
    body = "(float[1,256,4,4] x) => (float[1,256,4,4] y) { a = Conv (x, k) y = Mul (a, c) }"
    weights = {"k": normal(256, 256, 1, 1), "c": normal(256, 1, 1)}
    result, names = folded(network(tmp_path, body, weights))
    assert len(names) == 1 and result.proto.ByteSize() < 10_000
    (tensor,) = (t for t in result.proto.graph.initializer if len(t.dims) == 4)
    wanted = weights["k"] * weights["c"][..., np.newaxis]
    np.testing.assert_allclose(result.array(tensor), wanted, rtol=1e-6)


def test_a_node_that_dies_in_a_graph_between_two_leaves_it(tmp_path: Path) -> None:
    """The innermost graph is rewritten for its Mul, the outermost for its own; the one between only loses a constant."""
    body = """(bool q0, float[N,6,5,4] x) => (float[N,8,h,w] y) {
        y = If (q0) <
            then_branch = one () => (float[N,8,h,w] p) {
                a = Conv (x, k)
                a2 = Mul (a, c)
                p1 = If (q0) <
                    then_branch = two () => (float[N,8,h,w] q) {
                        two0 = Constant <value = float {2.0}> ()
                        q = If (q0) <
                            then_branch = three () => (float[N,8,h,w] r) { d = Conv (x, k) r = Mul (d, two0) },
                            else_branch = four () => (float[N,8,h,w] r4) { r4 = Conv (x, k) }>
                    },
                    else_branch = five () => (float[N,8,h,w] q5) { q5 = Conv (x, k) }>
                p = Add (p1, a2)
            },
            else_branch = six () => (float[N,8,h,w] p6) { p6 = Conv (x, k) }>
    }"""
    model = network(tmp_path, body, {name: WEIGHTS[name] for name in "kc"})
    reduced = reduce_model(model, FP16)
    assert len(reduced.report.folded) == 2
    assert error_of(reduced.model, model, {"q0": np.array(True), **FEEDS}) < 2e-3


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        ("a = Conv (x, k, b) y = Mul (a, c)", {"b": normal(4)}),
        ("a = Conv (x, k) y = Mul (a, c)", {"k": np.float32(2)}),
        ("a = ConvTranspose (x, k) y = Mul (a, c)", {"k": normal(6)}),
        ("y = ConvTranspose <group = 0> (x, t)", {}),
    ],
)
def test_what_is_broken_is_left_to_those_who_say_so(
    tmp_path: Path, lines: str, weights: dict[str, np.ndarray]
) -> None:
    used = named_in(lines, {**WEIGHTS, **weights})
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 20]> g (float[N,6,5,4] x) => (float[N,8,h,w] y) {{ {lines} }}'
    )
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in used.items())
    model = loaded(proto, tmp_path)
    assert reduce_model(model, FP16, longest=LONGEST).report.folded == ()


NORM = "(float[N,6,5,4] x) => (float[N,8,h,w] y) { a = Conv (x, k) y = BatchNormalization (a, s, b, m, v) }"


def channel_errors(model: Model, reduced: Model, feeds: dict[str, np.ndarray]) -> np.ndarray:
    exact, found = run(model, feeds)["y"], run(emulated(reduced), feeds, optimise=False)["y"]
    off, size = (np.sqrt(np.square(array).sum((0, 2, 3))) for array in (found - exact, exact))
    return np.asarray(off / size)


def test_channels_keep_their_digits(tmp_path: Path) -> None:
    """Values of 1e4 that a norm brings to 1: its scale in the weights would make them subnormal in float16."""
    weights = {name: WEIGHTS[name] for name in "ksbm"} | {"v": np.full(8, 1e8, np.float32)}
    feeds = {"x": FEEDS["x"] * np.float32(1000)}
    model = network(tmp_path, NORM, weights)
    reduced = reduce_model(model, FP16)
    assert reduced.report.folded == () and channel_errors(model, reduced.model, feeds).max() < 1e-3
    assert reduce_model(model, BF16).report.folded  # whose range is that of float32


def test_a_dead_channel_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    weights = {name: WEIGHTS[name] for name in "ksbmv"}
    weights["s"] = np.where(np.arange(8) == 3, np.float32(1e-7), WEIGHTS["s"])
    model = network(tmp_path, NORM, weights)
    reduced = reduce_model(model, FP16)
    assert reduced.report.folded and channel_errors(model, reduced.model, FEEDS).max() < 2e-3


@pytest.mark.parametrize(
    "constant", [np.full((8, 1, 1), 1e-7, np.float32), np.full((8, 1, 1), 1e6, np.float32)]
)
def test_a_convolution_stays_in_the_reduced_type(tmp_path: Path, constant: np.ndarray) -> None:
    op = "Add" if constant.max() < 1 else "Mul"
    body = f"(float[N,6,5,4] x) => (float[N,8,h,w] y) {{ [conv] a = Conv (x, k) [c] d = {op} (a, c) y = Relu (d) }}"
    reduced = reduce_model(network(tmp_path, body, {"k": WEIGHTS["k"], "c": constant}), FP16)
    assert reduced.report.folded == () and [k.node for k in reduced.report.kept] == ["c"]


def test_an_old_opset_is_left(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["" : 6]> g (float[8,6,5,4] x) => (float[8,8,3,2] y) '
        "{ a = Conv (x, k) y = Mul <broadcast = 1, axis = 0> (a, c) }"
    )
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(WEIGHTS[name], name) for name in "kc")
    assert folded(infer_shapes(loaded(proto, tmp_path)))[1] == ()


def test_a_chain_is_folded_as_far_as_the_type_bears_it(tmp_path: Path) -> None:
    body = """(float[N,6,5,4] x) => (float[N,8,h,w] y) {
        [conv] a = Conv (x, k)
        [fits] d = Mul (a, c)
        [tiny] e = Add (d, t)
        y = Relu (e)
    }"""
    weights = {"k": WEIGHTS["k"], "c": WEIGHTS["c"], "t": np.full((8, 1, 1), 1e-7, np.float32)}
    assert reduce_model(network(tmp_path, body, weights), FP16).report.folded == ("fits",)


def test_a_scale_alone_makes_no_bias(tmp_path: Path) -> None:
    result, names = folded(net(tmp_path, "a = Conv (x, k) y = Mul (a, c)"))
    (conv,) = result.proto.graph.node
    assert len(names) == 1 and len(conv.input) == 2

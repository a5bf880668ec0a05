"""Parts of graphs as models: they compute the same as the whole, and declare its sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.converter.models import parsed
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.reduction.graph_cut import Cut, WholeGraph, closed, cut
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.reduction.value_sizes import value_sizes
from trtsmith.converter.model.load import load_model

CHAIN = """<ir_version: 9, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> {
  a = MatMul(x, w)
  b = Relu(a)
  s = Shape(b)
  c = Constant<value = float[4] {1, 2, 3, 4}>()
  d = Add(b, c)
  e = Reshape(d, s)
  y = Add(e, a)
}"""
A, B, S, D, E, Y = range(6)  # numbers of the nodes that make these; the constant has none

RANGES = {"x": Profile((1, 4), (2, 4), (5, 4))}

LOOP = """<ir_version: 9, opset_import: ["" : 17]>
g (float[N, 4] x, int64 n) => (float[N, 4] y) <bool true = {1}> {
  a = Relu(x)
  r = Loop(n, true, a) <body = b (int64 i, bool c, float[N, 4] h) => (bool c2, float[N, 4] h2) {
    c2 = Identity(c)
    t = Tanh(a)
    f = Cast<to = 1>(i)
    h2 = Add(t, f)
  }>
  y = Neg(r)
}"""
RELU, THE_LOOP, GO_ON, TANH, CAST, ADD, NEG = range(7)


def subject(folder: Path, text: str, profile: Mapping[str, Profile] | None = None) -> WholeGraph:
    model = onnx.parser.parse_model(text)
    for number, node in enumerate(model.graph.node):
        node.name = f"node{number}"
    onnx.save(model, folder / "m.onnx")
    table = NodeTable(load_model(folder / "m.onnx"))
    profiles = () if profile is None else (profile,)
    return WholeGraph(table, value_sizes(table, profiles), profiles)


def run(proto: onnx.ModelProto, names: Iterable[str], feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = ort.InferenceSession(whole.SerializeToString())
    return list(session.run(list(names), {i.name: feeds[i.name] for i in session.get_inputs()}))


def edges(part: Cut) -> tuple[list[str], list[str]]:
    return [i.name for i in part.proto.graph.input], [o.name for o in part.proto.graph.output]


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs"),
    [
        ({A}, ["x"], ["a"]),
        ({B, D}, ["a"], ["d"]),
        ({D, Y}, ["b", "e", "a"], ["d", "y"]),
        ({A, B, S, D, E, Y}, ["x"], ["y"]),
    ],
)
def test_a_part_computes_what_the_whole_does(
    tmp_path: Path, nodes: set[int], inputs: list[str], outputs: list[str]
) -> None:
    whole = subject(tmp_path, CHAIN, RANGES)
    part = cut(whole, nodes)
    assert edges(part) == (inputs, outputs) and part.nodes == nodes
    onnx.checker.check_model(part.proto)
    original = onnx.load(tmp_path / "m.onnx")
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    names = ["a", "b", "d", "e", "y"]
    known = {"x": x, **dict(zip(names, run(original, names, {"x": x}), strict=True))}
    for name, found in zip(outputs, run(part.proto, outputs, known), strict=True):
        np.testing.assert_array_equal(found, known[name])


def test_inputs_have_the_sizes_that_the_profile_gives(tmp_path: Path) -> None:
    part = cut(subject(tmp_path, CHAIN, RANGES), {B})
    assert part.profiles == ({"a": Profile((1, 4), (2, 4), (5, 4))},)
    (given,) = part.proto.graph.input
    dims = given.type.tensor_type.shape.dim
    assert not dims[0].HasField("dim_value") and dims[1].dim_value == 4


def test_sizes_that_the_profile_decides_are_constants_or_a_range(tmp_path: Path) -> None:
    fixed = {"x": Profile((2, 4), (2, 4), (2, 4))}
    part = cut(subject(tmp_path, CHAIN, fixed), {E})
    (held,) = part.proto.graph.initializer
    assert edges(part)[0] == ["d"] and onnx.numpy_helper.to_array(held).tolist() == [2, 4]
    part = cut(subject(tmp_path, CHAIN, RANGES), {E})
    assert edges(part)[0] == ["d", "s"]
    assert part.profiles[0]["s"] == Profile((1, 4), (2, 4), (5, 4), values=True)


def test_what_has_no_known_size_comes_with_its_maker(tmp_path: Path) -> None:
    text = CHAIN.replace("b = Relu(a)", "b = NonZero (a)")
    text = text.replace("d = Add(b, c)", "b2 = Cast<to=1>(b) d = Identity(b2)")
    whole = subject(tmp_path, text, RANGES)
    assert not whole.can_be_given("b") and whole.can_be_given("a")
    made = whole.table.producer
    assert closed(whole, {made["d"]}) == {made["b"], made["b2"], made["d"]}


def test_a_run_says_sizes_that_inference_does_not_know(tmp_path: Path) -> None:
    text = CHAIN.replace("b = Relu(a)", "b0 = NonZero(a) b = Cast<to=1>(b0)").replace(
        "d = Add(b, c)", "d = Neg(b)"
    )
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "m.onnx")
    table = NodeTable(load_model(tmp_path / "m.onnx"))
    asked = []

    def seen(corners: object, values: object, names: list[str]) -> list[dict[str, tuple[int, ...]]]:
        asked.append((corners, names))
        return [dict.fromkeys(names, (2, 7)) for _ in corners]  # type: ignore[attr-defined]

    sizes = value_sizes(table, (RANGES,), seen)  # type: ignore[arg-type]
    ((corners, names),) = asked
    assert len(corners) == 3 and {"b0", "b", "d"} <= set(names) and "a" not in names
    assert sizes.shapes["b"] == ((2, 7),) * 3


def test_weights_are_not_copied(tmp_path: Path) -> None:
    text = "(float[2,64] x) => (float[2,64] z) { y = MatMul (x, w) z = Relu (y) }"
    table = NodeTable(parsed(tmp_path / "m.onnx", text, {"w": np.ones((64, 64), np.float32)}))
    whole = WholeGraph(table, value_sizes(table, ()))
    assert len(cut(whole, {0}).proto.SerializeToString()) < 1000
    assert not cut(whole, {1}).proto.graph.initializer


def test_bodies_are_cut_with_their_values_given_from_outside(tmp_path: Path) -> None:
    profile = {"x": Profile((2, 4), (2, 4), (2, 4)), "n": Profile((1,), (2,), (3,), values=True)}
    whole = subject(tmp_path, LOOP, profile)
    assert whole.table.outer == (RELU, THE_LOOP, NEG) and whole.table.inside({THE_LOOP}) == (2, 3, 4, 5)
    part = cut(whole, {THE_LOOP, GO_ON, ADD, CAST})
    ort.InferenceSession(part.proto.SerializeToString())
    assert edges(part) == (["n", "a", "t"], ["r"])
    part = cut(whole, {THE_LOOP})
    ort.InferenceSession(part.proto.SerializeToString())
    body = part.proto.graph.node[0].attribute[0].g
    assert [node.op_type for node in body.node] == ["Identity", "Identity"]
    assert cut(whole, {TANH}).nodes == {THE_LOOP, TANH}


def test_constants_that_no_tensor_holds_come_as_nodes(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (string[2] x) => (string[2] y) { c = Constant<value_strings = ["a", "b"]>() y = StringConcat(x, c) }"""
    part = cut(subject(tmp_path, text), {0})
    assert [node.op_type for node in part.proto.graph.node] == ["Constant", "StringConcat"]
    assert edges(part) == (["x"], ["y"])


def test_nodes_that_are_passed_by(tmp_path: Path) -> None:
    whole = subject(tmp_path, CHAIN, RANGES)
    assert whole.passes(B) == "a" and whole.passes(A) is None  # its input is no node's
    part = cut(whole, {A, ~B, D})
    assert edges(part) == (["x"], ["d"])
    assert [node.input[0] for node in part.proto.graph.node] == ["x", "a"]


def test_names_that_several_bodies_use_are_never_inputs(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[4] x, bool c) => (float[4] y) {
      y = If(c) <then_branch = t () => (float[4] r) { q = Relu(x) r = Neg(q) },
                 else_branch = e () => (float[4] r) { q = Tanh(x) r = Neg(q) }>
    }"""
    whole = subject(tmp_path, text)
    assert {"q", "r"} <= whole.table.repeated
    assert closed(whole, {0}) == {0, 1, 2, 3, 4}

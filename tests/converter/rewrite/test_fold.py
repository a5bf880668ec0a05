"""Constant folding: what is computed, what stays, and that numbers are equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from tests.converter.rewrite.running import loaded
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model import ort
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite import fold
from trtsmith.converter.rewrite.fold import LIMIT
from trtsmith.importers.problem import Problem


def fold_constants(model: Model) -> Model:
    graph = Graph(model)
    fold.fold(graph)
    return graph.model()


def load(tmp_path: Path, text: str) -> Model:
    return infer_shapes(loaded(text, tmp_path))


def ops(model: Model) -> list[str]:
    return [node.op_type for node in model.proto.graph.node]


def load_body(
    folder: Path, body: str, inputs: str = "float[N, 4, 6] x", outputs: str = "float[a, b, c] y"
) -> Model:
    return load(
        folder, f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) {{\n{body}\n}}'
    )


def test_arithmetic_on_fixed_shapes_is_computed(tmp_path: Path) -> None:
    model = load_body(
        tmp_path,
        """
            w = Constant <value = float[2, 3] {1, 2, 3, 4, 5, 6}> ()
            shape = Shape <start = 1> (w)
            minus = Constant <value = int64[1] {-1}> ()
            doubled = Add (shape, shape)
            target = Concat <axis = 0> (minus, doubled)
            y = Reshape (x, target)
            """,
        outputs="float[a, b] y",
    )
    folded = fold_constants(model)
    assert ops(folded).count("Shape") == ops(folded).count("Add") == ops(folded).count("Concat") == 0
    assert ops(folded)[-1] == "Reshape"
    x = np.arange(48, dtype=np.float32).reshape(2, 4, 6)
    np.testing.assert_array_equal(run(folded, {"x": x})["y"], x.reshape(-1, 6))
    assert ops(model) == ["Constant", "Shape", "Constant", "Add", "Concat", "Reshape"], (
        "the model itself is unchanged"
    )


def test_shapes_that_are_dynamic_stay(tmp_path: Path) -> None:
    model = load_body(tmp_path, "shape = Shape (x)\ny = Expand (x, shape)")
    assert fold_constants(model) is model


def test_part_of_a_shape_and_size(tmp_path: Path) -> None:
    model = load_body(
        tmp_path,
        """
            s = Shape <start = -2, end = -1> (x)
            n = Size (x)
            flat = Reshape (n, s)
            y = Tile (s, flat)
            """,
        inputs="float[3, 1, 6] x",
        outputs="int64[a] y",
    )
    folded = fold_constants(model)
    assert ops(folded) == ["Tile"]
    np.testing.assert_array_equal(run(folded, {"x": np.zeros((3, 1, 6), np.float32)})["y"], [1] * 18)


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_weights_are_left_alone(tmp_path: Path, size: int) -> None:
    values = ", ".join(["1"] * size)
    model = load_body(
        tmp_path,
        f"w = Constant <value = float[{size}] {{{values}}}> ()\nn = Neg (w)\ny = Add (x, n)",
        inputs=f"float[{size}] x",
        outputs=f"float[{size}] y",
    )
    assert ("Neg" in ops(fold_constants(model))) == (size > LIMIT)


@pytest.mark.parametrize(
    "body",
    [
        "s = Constant <value = float {0.5}> ()\nq = QuantizeLinear (s, s)\nd = DequantizeLinear (q, s)\ny = Add (x, d)",
        "r = RandomNormal <shape = [1]> ()\ny = Add (x, r)",
    ],
    ids=["quantized", "random"],
)
def test_what_must_not_be_folded(tmp_path: Path, body: str) -> None:
    model = load_body(tmp_path, body, outputs="float[N, 4, 6] y")
    assert fold_constants(model) is model


def test_a_graph_output_keeps_its_node(tmp_path: Path) -> None:
    model = load_body(
        tmp_path,
        "one = Constant <value = float[1] {1}> ()\nmore = Add (one, one)\ny = Mul (x, more)",
        outputs="float[N, 4, 6] y, float[1] more",
    )
    folded = fold_constants(model)
    assert "more" in {name for node in folded.proto.graph.node for name in node.output}
    outputs = run(folded, {"x": np.ones((1, 4, 6), np.float32)})
    assert outputs["more"] == 2 and (outputs["y"] == 2).all()


def test_values_that_a_subgraph_reads_are_kept(tmp_path: Path) -> None:
    model = load_body(
        tmp_path,
        """
            one = Constant <value = float[1] {1}> ()
            two = Add (one, one)
            y = If (c) <
              then_branch = t () => (float[N, 4, 6] p) { p = Mul (x, two) },
              else_branch = e () => (float[N, 4, 6] q) { q = Identity (x) }
            >
            """,
        inputs="float[N, 4, 6] x, bool c",
        outputs="float[N, 4, 6] y",
    )
    folded = fold_constants(model)
    assert "Add" not in ops(folded)
    y = run(folded, {"x": np.ones((1, 4, 6), np.float32), "c": np.array(True)})["y"]
    np.testing.assert_array_equal(y, np.full((1, 4, 6), 2, np.float32))


def test_a_branch_is_folded_with_the_constants_around_it(tmp_path: Path) -> None:
    model = load_body(
        tmp_path,
        """
        one = Constant <value = float[1] {1}> ()
        y = If (c) <
          then_branch = t () => (float[N, 4, 6] p) {
            two = Add (one, one)  s = Shape <start = 1> (x)  n = ReduceProd <keepdims = 0> (s)  f = Cast <to = 1> (n)
            k = Mul (two, f)  p = Mul (x, k)
          },
          else_branch = e () => (float[1] q) { no = Sub (one, one)  q = Neg (no) }
        >
        """,
        inputs="float[N, 4, 6] x, bool c",
        outputs="float[a, b, d] y",
    )
    folded = fold_constants(model)
    (node,) = (n for n in folded.proto.graph.node if n.op_type == "If")
    branches = {a.name: [n.op_type for n in a.g.node] for a in node.attribute}
    assert branches["then_branch"] == ["Constant", "Mul"]
    assert branches["else_branch"] == ["Constant", "Neg"], "the output of a branch keeps its node"
    feeds = {"x": np.ones((2, 4, 6), np.float32), "c": np.array(True)}
    np.testing.assert_array_equal(run(folded, feeds)["y"], run(model, feeds)["y"])


def test_a_node_that_onnxruntime_refuses_stops_only_what_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refusing(model: Model, feeds: dict[str, np.ndarray], **options: bool) -> dict[str, np.ndarray]:
        asked.append([node.op_type for node in model.proto.graph.node])
        if "Mul" in asked[-1]:
            raise ConversionError(Problem("no Mul", "", "", ""))
        return run(model, feeds, **options)

    monkeypatch.setattr(ort, "run", refusing)
    model = load_body(
        tmp_path,
        """
            one = Constant <value = float[1] {1}> ()
            a = Add (one, one)
            d = Mul (one, one)
            e = Neg (d)
            b = Sub (a, one)
            f = Mul (b, b)
            g = Exp (b)
            s = Sum (b, e, f, g)
            k = ReduceMax <keepdims = 0> (s)
            y = Mul (x, k)
            """,
        outputs="float[N, 4, 6] y",
    )
    folded = fold_constants(model)
    assert ops(folded) == ["Constant", "Mul", "Neg", "Mul", "Sum", "ReduceMax", "Mul"]
    values = {tensor.name: numpy_helper.to_array(tensor).item() for tensor in folded.proto.graph.initializer}
    assert values == {"b": 1.0, "g": pytest.approx(np.e)}
    assert sum(group.count("Mul") == len(group) - group.count("Constant") for group in asked) == 1, (
        "asked once"
    )


def test_part_of_a_dynamic_shape_is_folded(tmp_path: Path) -> None:
    model = load_body(tmp_path, "s = Shape <start = 1, end = 3> (x)\ny = Expand (x, s)")
    folded = fold_constants(model)
    assert ops(folded) == ["Expand"] and folded.proto.graph.initializer[0].dims == [2]


@pytest.mark.parametrize("group", [1, 2, 3])
def test_groups_of_nodes_read_what_those_before_them_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    monkeypatch.setattr(fold, "_GROUP", group)
    sums = "\n".join(f"v{i} = Add (v{i - 1}, v{max(i - 2, 0)})" for i in range(1, 8))
    model = load_body(tmp_path, f"v0 = Constant <value = int64[1] {{3}}> ()\n{sums}\ny = Expand (x, v7)")
    folded = fold_constants(model)
    assert ops(folded) == ["Expand"]
    (value,) = (t for t in folded.proto.graph.initializer if t.name == "v7")
    numbers = [3, 6]
    while len(numbers) < 8:
        numbers.append(numbers[-1] + numbers[-2])
    assert numpy_helper.to_array(value).tolist() == [numbers[7]]


def test_what_is_computed_alike_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the bodies of functions: the same operators on constants of the same value, under other names."""
    text = """<ir_version: 10, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)
        <float[2] one = {1, 2}, float[2] same = {1, 2}, float[2] other = {1, 3}> {
            a = Neg (one)  b = Neg (same)  c = Neg (other)  d = Exp (a)  e = Exp (b)
            f = Add (x, d)  g = Add (f, e)  y = Add (g, c)
        }"""
    ran: list[int] = []
    compute = fold.computed_values

    def counted(scope, nodes, *more):  # type: ignore[no-untyped-def]
        ran.append(len(nodes))
        return compute(scope, nodes, *more)

    monkeypatch.setattr(fold, "computed_values", counted)
    folded = fold_constants(load(tmp_path, text)).proto.graph
    assert ran == [3]  # Neg of the one value and of the other, Exp
    assert [node.op_type for node in folded.node] == ["Add"] * 3
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in folded.initializer}
    np.testing.assert_allclose(values["d"], np.exp([-1.0, -2.0]), rtol=1e-6)
    np.testing.assert_array_equal(values["d"], values["e"])
    np.testing.assert_array_equal(values["c"], [-1, -3])


def test_a_node_with_many_inputs_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Concat of 300 constants, too large to be computed, was looked at once for each of them."""
    count, asked = 300, 0
    small = fold._FoldingPlan._small

    def counted(plan: fold._FoldingPlan, *given: object) -> bool:
        nonlocal asked
        asked += 1
        return small(plan, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(fold._FoldingPlan, "_small", counted)
    parts = [f"e{i} = Expand (one, size)" for i in range(count)]
    joined = f"k = Concat <axis = 0> ({', '.join(f'e{i}' for i in range(count))}) y = Add (k, x)"
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[a] y)
        <float[1] one = {{1}}, int64[1] size = {{{LIMIT // count + 1}}}> {{ {" ".join(parts)} {joined} }}"""
    fold_constants(load(tmp_path, text))
    assert asked < 5 * count

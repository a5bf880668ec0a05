"""A node is judged on its own inputs, like an output; regions between known values, batches, cut-out models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper as oh

from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import Sabotaged, searched, to_tf32
from tests.converter.models import parsed
from tests.outside.mixing import OPERATORS
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.locate.executors.executor import Onnxruntime, ProbedValue, probe, with_outputs
from trtsmith.converter.locate.node_judge import node_errors
from trtsmith.converter.locate.search import batches, marks_of
from trtsmith.converter.locate.searched_graph import part_of, region_model, region_of
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.verify.allowance import allowance
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.operator_package import OperatorPackage
from trtsmith.importers.registry import using

RNG = np.random.default_rng(11)
A = RNG.standard_normal((32, 64)).astype(np.float32)
W = RNG.standard_normal((64, 48)).astype(np.float32)


def judged(model: Model, given: dict[str, np.ndarray], executor: Sabotaged | None = None) -> Any:
    """What is off in the outputs of the only node, by these values."""
    view = NodeTable(model)
    values = {n: ProbedValue(n, str(given[n].dtype), given[n].shape) for n in view.made}
    return node_errors(searched(view, values, {}, executor), region_of(view, 0, given), given)


def errors(tmp_path: Path, node: str, y: np.ndarray, *, tf32: bool) -> Any:
    text = f"(float[32, 64] a) => (float[{', '.join(map(str, y.shape))}] y) {{ [node] y = {node} }}"
    model = parsed(tmp_path / "m.onnx", text, {"w": W})
    return judged(model, {"a": A, "y": y}, Sabotaged(tf32=tf32))


def test_a_product_in_tf32_is_right_where_the_gpu_computes_so(tmp_path: Path) -> None:
    tf32 = (to_tf32(A).astype(np.float64) @ to_tf32(W)).astype(np.float32)
    (with_it,) = errors(tmp_path, "MatMul (a, w)", tf32, tf32=True)
    assert with_it.agrees and with_it.relative > 5e-4  # more than float32 is allowed
    (without,) = errors(tmp_path, "MatMul (a, w)", tf32, tf32=False)
    assert not without.agrees


@pytest.mark.parametrize("fault", [lambda y: y * 1.01, lambda y: y + np.where(y > 20, np.nan, 0)])
def test_tf32_excuses_no_more_than_it_explains(fault, tmp_path: Path) -> None:
    y = fault(A.astype(np.float64) @ W).astype(np.float32)
    (found,) = errors(tmp_path, "MatMul (a, w)", y, tf32=True)
    assert not found.agrees


@pytest.mark.parametrize(("tf32", "allowed"), [(False, 1e-5), (True, 1e-3)])
def test_a_function_may_be_off_as_an_output_of_a_network_may(
    tf32: bool, allowed: float, tmp_path: Path
) -> None:
    for factor, agrees in ((allowed / 10, True), (allowed * 10, False)):
        (found,) = errors(tmp_path, "Exp (a)", np.exp(A) * np.float32(1 + factor), tf32=tf32)
        assert found.agrees is agrees


@pytest.mark.parametrize("tf32", [False, True])
def test_one_wrong_element_is_found_however_small_its_part_of_the_norm(tf32: bool, tmp_path: Path) -> None:
    y = np.exp(A)
    y[3, 5] += 0.1 if tf32 else 1e-4
    (found,) = errors(tmp_path, "Exp (a)", y, tf32=tf32)
    assert not found.agrees and found.relative < (2e-3 if tf32 else 1e-4) and found.worst == (3, 5)


def test_sums_in_float16_are_allowed_where_the_executor_makes_them(tmp_path: Path) -> None:
    a, w = (RNG.standard_normal(shape).astype(np.float16) for shape in ((4, 8192), (8192, 8)))
    total = np.zeros((4, 8), np.float16)
    for k in range(0, 8192, 16):  # as a tensor core's instruction does
        total = (total + a[:, k : k + 16].astype(np.float32) @ w[k : k + 16]).astype(np.float16)
    text = "(float16[4, 8192] a) => (float16[4, 8] y) { [node] y = MatMul (a, w) }"
    model = parsed(tmp_path / "m.onnx", text, {"w": w})
    for sums in (True, False):
        (found,) = judged(model, {"a": a, "y": total}, Sabotaged(float16_sums=sums))
        assert found.agrees is sums, found.reason


def of_a_difference(tmp_path: Path, factor: float, *, inside: bool) -> Any:
    """The error of a - b, which are almost equal, times a factor: as a node, or inside of an If."""
    b = A * np.float32(1.00001)
    y = ((A.astype(np.float64) - b) * factor).astype(np.float32)
    branches = [
        f"{name}_branch = {name} () => (float[32, 64] t) {{ t = Sub (a, b) }}" for name in ("then", "else")
    ]
    node = f"If (go) <{', '.join(branches)}>" if inside else "Sub (a, b)"
    text = f"(bool go, float[32, 64] a, float[32, 64] b) => (float[32, 64] y) {{ [node] y = {node} }}"
    return judged(parsed(tmp_path / "m.onnx", text), {"go": np.array(True), "a": A, "b": b, "y": y})


@pytest.mark.parametrize(
    ("factor", "inside", "agrees"), [(1.01, True, True), (1.01, False, False), (3.0, True, False)]
)
def test_a_node_that_is_a_graph_may_amplify_rounding(
    factor: float, inside: bool, agrees: bool, tmp_path: Path
) -> None:
    (found,) = of_a_difference(tmp_path, factor, inside=inside)
    assert found.agrees is agrees


def test_random_operators_have_no_error(tmp_path: Path) -> None:
    assert errors(tmp_path, "RandomNormalLike (a)", A + 7, tf32=False) == ()


def test_a_ranking_may_swap_equal_scores_and_no_others(tmp_path: Path) -> None:
    text = """(float[1, 4] a) => (float[1, 2] best, int64[1, 2] places) <int64[1] k = {2}> {
        [node] best, places = TopK (a, k) }"""
    given = {"a": np.float32([[0.1, 0.7, 0.7, 0.3]]), "best": np.float32([[0.7, 0.7]])}
    for places, agrees in (([2, 1], True), ([1, 1], False), ([1, 3], False)):
        found = judged(parsed(tmp_path / "m.onnx", text), {**given, "places": np.array([places])})
        assert found is not None and all(c.agrees for c in found) is agrees


def test_a_plugin_node_has_the_tolerance_of_its_operator() -> None:
    plugin = oh.make_node("LogOdds", ["x"], ["y"], domain=PLUGIN_NAMESPACE)
    proto = oh.make_model(oh.make_graph([plugin], "g", [], []))
    y = np.ones(4, ml_dtypes.bfloat16)
    with using([OperatorPackage("--ops mixing.py", OPERATORS)]):
        assert allowance({"y": y}, (), "bf16", proto).allowed == {"y": 2e-2}
    assert allowance({"y": y}, (), "bf16", proto).allowed == {"y": 1.6e-2}


@pytest.fixture
def view(tmp_path: Path) -> NodeTable:
    return NodeTable(network(tmp_path / "m.onnx"))


def index(view: NodeTable, name: str) -> int:
    return next(i for i, node in enumerate(view.nodes) if node.name == name)


def test_what_depends_on_shapes_only_does_not_vary(view: NodeTable) -> None:
    assert {"sizes", "count"}.isdisjoint(view.varying)
    assert {"x", "h", "positive", "chosen", "y"} <= view.varying


def test_a_region_ends_at_known_values(view: NodeTable) -> None:
    near = region_of(view, index(view, "second"), {"x", "r", "p"})
    assert (near.nodes, near.inputs, near.outputs) == ((index(view, "second"),), ("r",), ("p",))
    far = region_of(view, index(view, "second"), {"x", "p"})
    assert far.nodes == tuple(index(view, n) for n in ("first", "relu", "second")) and far.inputs == ("x",)


def test_a_region_runs_by_itself_subgraph_and_all(view: NodeTable) -> None:
    names = ["positive", "soft", "sum", "chosen", "count", "y"]
    values = probe(view.model, names, x())
    known = Onnxruntime().execute(view.model, x()) | _values(view, names)
    for name in ("if", "reshape"):
        region = region_of(view, index(view, name), {*names, "x"})
        model = region_model(
            view, region, known, [values[n].info() for n in region.outputs], {"count"} & {*region.inputs}
        )
        assert "count" not in {value.name for value in model.proto.graph.input}
        given = {value.name: known[value.name] for value in model.proto.graph.input}
        for output, array in run(model, given).items():
            np.testing.assert_allclose(array, known[output], rtol=1e-6)


def _values(view: NodeTable, names: list[str]) -> dict[str, np.ndarray]:
    values = probe(view.model, names, x())
    return run(with_outputs(view.model, [values[n].info() for n in names]), x())


def test_a_part_shows_what_none_of_its_nodes_reads(view: NodeTable) -> None:
    first = part_of(view, range(4), ())
    assert first.inputs == ("x",) and first.outputs == ("sum",)
    assert part_of(view, range(4), {1}).outputs == ("r", "sum")
    assert part_of(view, [i for i in view.outer if i > 6], ()).outputs == ("y",)


def test_the_sizes_of_all_values_are_those_of_the_run(view: NodeTable) -> None:
    found = probe(view.model, view.made, x(rows=5))
    assert found["h"] == ProbedValue("h", "float32", (5, 16)) and found["h"].nbytes == 5 * 16 * 4
    assert found["positive"] == ProbedValue("positive", "bool", ())
    assert found["count"] == ProbedValue("count", "int64", (1,)) and found["y"].shape == (40,)
    assert set(found) == set(view.made)


def test_batches_hold_inputs_and_outputs_of_their_nodes_and_fit(view: NodeTable) -> None:
    values = probe(view.model, view.made, x(rows=64))
    graph = searched(view, values, x(rows=64))
    (whole,) = batches(graph, 1 << 30)
    assert whole == view.outer and set(marks_of(graph, whole, graph.known())) == set(view.made)
    limit = 3 * 64 * 16 * 4
    parts = list(batches(graph, limit))
    assert len(parts) > 1
    assert [i for part in parts for i in part] == list(view.outer)
    for part in parts:
        marks = marks_of(graph, part, graph.known())
        assert sum(values[name].nbytes for name in marks) <= limit
        for i in part:
            assert {name for name in view.reads[i] if name in view.producer} <= set(marks)
    tiny = list(batches(graph, 1))  # a node that alone is over the limit is a batch of its own
    assert [len(part) for part in tiny if len(part) != 1] == []


def test_batches_look_through_values_that_cannot_be_outputs(view: NodeTable) -> None:
    values = {n: v for n, v in probe(view.model, view.made, x()).items() if n not in ("r", "p")}
    graph = searched(view, values, x())
    add = next(part for part in batches(graph, 1) if index(view, "add") in part)
    assert set(marks_of(graph, add, graph.known())) == {"h", "sum"}

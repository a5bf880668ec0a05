"""Who reads what, regions between known values, batches, and models cut out of models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper as oh

from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import searched
from trtsmith.converter.engine.reduction.node_table import NodeTable, op_name
from trtsmith.converter.locate.executors.executor import Onnxruntime, Value, probe, with_outputs
from trtsmith.converter.locate.search import batches, marks_of
from trtsmith.converter.locate.searched_graph import part_of, region_model, region_of
from trtsmith.converter.model.ort import run


@pytest.fixture
def view(tmp_path: Path) -> NodeTable:
    return NodeTable(network(tmp_path / "m.onnx"))


def index(view: NodeTable, name: str) -> int:
    return next(i for i, node in enumerate(view.nodes) if node.name == name)


def test_a_node_reads_what_its_subgraphs_take_from_around_it(view: NodeTable) -> None:
    assert set(view.reads[index(view, "if")]) == {"positive", "soft", "sum"}
    assert view.reads[index(view, "second")] == ("r", "w2")


def test_what_depends_on_shapes_only_does_not_vary(view: NodeTable) -> None:
    assert {"sizes", "count"}.isdisjoint(view.varying)
    assert {"x", "h", "positive", "chosen", "y"} <= view.varying


def test_domains_are_told_with_operators() -> None:
    assert op_name(oh.make_node("Add", [], [], domain="ai.onnx")) == "Add"
    assert op_name(oh.make_node("Inverse", [], [], domain="com.microsoft")) == "com.microsoft::Inverse"


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


def test_readers_are_known_by_what_they_read(view: NodeTable) -> None:
    assert {name: [view.nodes[i].name for i in view.readers[name]] for name in ("x", "sum", "soft")} == {
        "x": ["first", "add", "top", "shape"],
        "sum": ["softmax", "if"],  # inside of a branch
        "soft": ["if"],
    }
    assert "y" not in view.readers


def test_the_sizes_of_all_values_are_those_of_the_run(view: NodeTable) -> None:
    found = probe(view.model, view.made, x(rows=5))
    assert found["h"] == Value("h", "float32", (5, 16)) and found["h"].nbytes == 5 * 16 * 4
    assert found["positive"] == Value("positive", "bool", ())
    assert found["count"] == Value("count", "int64", (1,)) and found["y"].shape == (40,)
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

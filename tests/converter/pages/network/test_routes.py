"""What became of each node of the original is told of the right node: by names, and without them by values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import load, save, value
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.pages.network.entries import entries_of
from trtsmith.converter.pages.network.node_values import pictured
from trtsmith.converter.pages.network.routes import NodeRoute, routes_of


def routes(model: Model, options: AnalysisOptions | None = None) -> dict[str, NodeRoute]:
    """By the first value that a node makes."""
    analysis = analyse(model, options or AnalysisOptions(compiled=False))
    entries = entries_of(analysis.original).all
    found = routes_of(entries, analysis.rewritten, analysis.plan)
    return {entry.outputs[0]: route for entry, route in zip(entries, found, strict=True) if entry.outputs}


def test_nodes_without_names_and_with_one_name_are_told_apart_by_their_values(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("Relu", ["x"], ["a"]),
        oh.make_node("Inverse", ["a"], ["b"], domain="com.microsoft"),
        oh.make_node("Inverse", ["b"], ["c"], domain="com.microsoft", name="same"),
        oh.make_node("Relu", ["c"], ["d"], name="same"),
        oh.make_node("Relu", ["d"], ["y"]),
    ]
    found = routes(load(tmp_path / "m.onnx", nodes, [value("x", (2, 4, 4))], [value("y", (2, 4, 4))]))
    by_name = {name: route.route for name, route in found.items()}
    assert by_name == {"x": "", "a": "native", "b": "plugin", "c": "plugin", "d": "native", "y": "native"}
    assert found["b"].rule == "aliases" and "MatrixInverse" in found["b"].how
    assert found["a"].rule == ""


def test_a_node_that_constants_decide_is_gone(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("Constant", [], ["k"], name="k", value_floats=[1.0, 2.0]),
        oh.make_node("Neg", ["k"], ["n"], name="n"),
        oh.make_node("Inverse", ["x"], ["i"], name="i", domain="com.microsoft"),
        oh.make_node("Erf", ["n"], ["unread"], name="unread"),
        oh.make_node("Add", ["i", "n"], ["y"], name="add"),
    ]
    model = load(tmp_path / "m.onnx", nodes, [value("x", (2, 2, 2))], [value("y", (2, 2, 2))])
    found = routes(model, AnalysisOptions(compiled=False, profiles=({},)))
    assert found["y"].route == "native" and found["i"].route == "plugin"
    for name in ("n", "unread"):
        assert found[name].route in ("gone", "native", "rewritten"), name
    assert "gone" in {found["n"].route, found["unread"].route, found["k"].route}


def test_a_node_that_nothing_takes_is_unsupported(tmp_path: Path) -> None:
    nodes = [oh.make_node("Gate", ["x"], ["y"], name="gate", domain="acme")]
    found = routes(load(tmp_path / "m.onnx", nodes, [value("x", (2,))], [value("y", (2,))]))
    assert found["y"].route == "unsupported" and "acme::Gate" in found["y"].how


def test_a_node_of_a_function_is_told_as_one_though_its_body_stands_in_its_place(tmp_path: Path) -> None:
    body = [oh.make_node("Inverse", ["a"], ["b"], domain="com.microsoft"), oh.make_node("Neg", ["b"], ["c"])]
    imports = [oh.make_opsetid("", 17), oh.make_opsetid("com.microsoft", 1)]
    function = oh.make_function("local", "Turned", ["a"], ["c"], body, imports)
    nodes = [
        oh.make_node("Turned", ["x"], ["t"], name="turned", domain="local"),
        oh.make_node("Relu", ["t"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [value("x", (2, 4, 4))],
        [value("y", (2, 4, 4))],
        domains={"com.microsoft": 1},
        functions=[function],
    )
    analysis = analyse(load_model(path), AnalysisOptions(compiled=False))
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    routes = [
        route.route for entry, route in zip(network.entries.all, network.routes, strict=True) if entry.op
    ]
    assert routes == ["function", "native"]


def test_the_type_is_that_of_the_engines_graph(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [oh.make_node("Conv", ["x", "w"], ["m"], name="m"), oh.make_node("Relu", ["m"], ["y"], name="r")],
        [value("x", (1, 2, 8, 8))],
        [value("y", (1, 2, 6, 6))],
        {"w": np.full((2, 2, 3, 3), 0.1, np.float32)},
    )
    options = AnalysisOptions(compiled=False, precision=PrecisionRequest("fp16"))
    found = routes(load_model(path), options)
    assert found["m"].dtype == "float16"
    assert routes(load_model(path))["m"].dtype == "float32"


def test_nodes_of_inner_graphs_have_routes_of_their_own(tmp_path: Path) -> None:
    branch = [
        oh.make_graph(
            [oh.make_node(op, ["x"], [f"{op}_out"], name=op.lower())], op, [], [value(f"{op}_out", (2,))]
        )
        for op in ("Relu", "Erf")
    ]
    node = oh.make_node("If", ["c"], ["y"], name="if", then_branch=branch[0], else_branch=branch[1])
    inputs = [value("c", (), TensorProto.BOOL), value("x", (2,))]
    model = load(tmp_path / "m.onnx", [node], inputs, [value("y", (2,))])
    entries = entries_of(model)
    inner = {entry.name: (entry.inside, entry.where) for entry in entries.all if entry.inside is not None}
    at = next(index for index, entry in enumerate(entries.all) if entry.name == "if")
    assert inner == {"relu": (at, "then_branch"), "erf": (at, "else_branch")}
    assert "then_branch: 1 node (1 Relu)" in entries.all[at].holds
    assert not any(entry.drawn for entry in entries.all if entry.inside is not None)
    # what an inner graph reads of the outer one is an edge of the outer node
    x = next(index for index, entry in enumerate(entries.all) if entry.role == "input" and entry.name == "x")
    assert (x, at) in entries.edges
    assert {routes(model)[f"{op}_out"].route for op in ("Relu", "Erf")} == {"native"}


def test_nothing_is_claimed_where_nothing_is_known(tmp_path: Path) -> None:
    nodes = [oh.make_node("Relu", ["x"], ["y"], name="r")]
    entries = entries_of(load(tmp_path / "m.onnx", nodes, [value("x", (2,))], [value("y", (2,))])).all
    assert set(routes_of(entries, None, None)) == {NodeRoute()}

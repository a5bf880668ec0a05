"""Each original node gets its own route: by name, and by values where nodes have no names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.converter.models import parsed
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.precision_request import PrecisionRequest
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
    text = """(float[2,4,4] x) => (float[2,4,4] y) {
        a = Relu (x) b = com.microsoft.Inverse (a) [same] c = com.microsoft.Inverse (b) [same] d = Relu (c) y = Relu (d) }"""
    found = routes(parsed(tmp_path / "m.onnx", text))
    by_name = {name: route.route for name, route in found.items()}
    assert by_name == {"x": "", "a": "native", "b": "plugin", "c": "plugin", "d": "native", "y": "native"}
    assert found["b"].rule == "aliases" and "MatrixInverse" in found["b"].how
    assert found["a"].rule == ""


def test_a_node_that_constants_decide_is_gone(tmp_path: Path) -> None:
    text = """(float[2,2,2] x) => (float[2,2,2] y) {
        k = Constant <value_floats = [1.0, 2.0]> () n = Neg (k) i = com.microsoft.Inverse (x)
        unread = Erf (n) y = Add (i, n) }"""
    model = parsed(tmp_path / "m.onnx", text)
    found = routes(model, AnalysisOptions(compiled=False, profiles=({},)))
    assert found["y"].route == "native" and found["i"].route == "plugin"
    for name in ("n", "unread"):
        assert found[name].route in ("gone", "native", "rewritten"), name
    assert "gone" in {found["n"].route, found["unread"].route, found["k"].route}


def test_a_node_that_nothing_takes_is_unsupported(tmp_path: Path) -> None:
    found = routes(parsed(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = acme.Gate (x) }"))
    assert found["y"].route == "unsupported" and "acme::Gate" in found["y"].how


def test_a_node_of_a_function_is_told_as_one_though_its_body_stands_in_its_place(tmp_path: Path) -> None:
    text = """(float[2,4,4] x) => (float[2,4,4] y) { [turned] t = local.Turned (x) y = Relu (t) }
        <domain: "local", opset_import: ["" : 17, "com.microsoft" : 1]>
        Turned (a) => (c) { b = com.microsoft.Inverse (a) c = Neg (b) }"""
    analysis = analyse(parsed(tmp_path / "m.onnx", text), AnalysisOptions(compiled=False))
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    routes = [
        route.route for entry, route in zip(network.entries.all, network.routes, strict=True) if entry.op
    ]
    assert routes == ["function", "native"]


def test_the_type_is_that_of_the_engines_graph(tmp_path: Path) -> None:
    text = "(float[1,2,8,8] x) => (float[1,2,6,6] y) { m = Conv (x, w) y = Relu (m) }"
    model = parsed(tmp_path / "m.onnx", text, {"w": np.full((2, 2, 3, 3), 0.1, np.float32)})
    options = AnalysisOptions(compiled=False, precision=PrecisionRequest("fp16"))
    found = routes(model, options)
    assert found["m"].dtype == "float16"
    assert routes(model)["m"].dtype == "float32"


def test_nodes_of_inner_graphs_have_routes_of_their_own(tmp_path: Path) -> None:
    text = """(bool c, float[2] x) => (float[2] y) { [if] y = If (c) <
        then_branch = t () => (float[2] Relu_out) { [relu] Relu_out = Relu (x) },
        else_branch = e () => (float[2] Erf_out) { [erf] Erf_out = Erf (x) }> }"""
    model = parsed(tmp_path / "m.onnx", text)
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
    entries = entries_of(parsed(tmp_path / "m.onnx", "(float[2] x) => (float[2] y) { y = Relu (x) }")).all
    assert set(routes_of(entries, None, None)) == {NodeRoute()}

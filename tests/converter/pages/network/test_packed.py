"""The packed network is small, and equals the model's."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path

import onnx
import pytest

from pagecheck.large_network import large_network
from tests.converter.models import parsed
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.model.load import load_model
from trtsmith.converter.pages.network.entries import entries_of
from trtsmith.converter.pages.network.node_values import LONGEST_NAME, packed, pictured


def test_what_is_packed_can_be_read(tmp_path: Path) -> None:
    text = """(float[n,3] x) => (float[n,3] y) <float high = {1}> {
        [k] k = Constant <value_float = 2.0> () [mul] a = Mul (x, k) [clip] y = Clip (a, , high) }"""
    model = parsed(tmp_path / "m.onnx", text)
    data = pictured(model).data
    text = data["texts"]
    assert [text[n] for n in data["names"]] == ["x", "k", "mul", "clip", "y"]
    assert data["roles"] == [1, 0, 0, 0, 2]
    values = [text[n] for n in data["values"]]
    inputs = [[values[v] if v >= 0 else "" for v in one] for one in data["inputs"]]
    assert inputs == [[], [], ["x", "k"], ["a", "", "high"], ["y"]]
    assert [values[v] for v in data["constant"]] == ["high"]
    types = {values[v]: text[n] for v, n in enumerate(data["types"])}
    assert types["x"] == types["y"] == "float32 n×3" and types["high"] == "float32 scalar"
    drawn = list(accumulate(data["drawn"]))
    assert drawn == [0, 2, 3, 4]  # the constant is told with its reader
    edges, source = [], 0
    for step, length in zip(data["edges"][::2], data["edges"][1::2], strict=True):
        source += step
        edges.append((drawn[source], drawn[source + length]))
    assert edges == [(0, 2), (2, 3), (3, 4)]
    assert len(data["x"]) == len(data["y"]) == len(data["depth"]) == 4
    assert "value_float=2" in text[data["attributes"][1]]


def test_a_name_of_any_length_is_packed_short(tmp_path: Path) -> None:
    name = "a" * 5000 + "b" * 5000
    model = parsed(tmp_path / "m.onnx", f"(float[1] x) => (float[1] y) {{ [{name}] y = Relu (x) }}")
    data = packed(entries_of(model), pictured(model).routes)
    kept = data["texts"][data["names"][1]]
    assert len(kept) == LONGEST_NAME + 1 and kept.startswith("aaa") and kept.endswith("bbb")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.onnx"
    onnx.save(large_network(2000), path)
    return path


def test_a_node_takes_about_two_hundred_bytes(large: Path) -> None:
    analysis = analyse(load_model(large), AnalysisOptions(compiled=False))
    data = pictured(analysis.original, analysis.rewritten, analysis.plan).data
    assert len(json.dumps(data, separators=(",", ":"))) / len(data["names"]) < 260


def test_errors_and_times_find_their_nodes_under_the_names_of_the_engines_graph(large: Path) -> None:
    analysis = analyse(load_model(large), AnalysisOptions(compiled=False))
    network = pictured(analysis.original, analysis.rewritten, analysis.plan)
    record = analysis.rewritten.rewrites[0]
    node = next(i for i, entry in enumerate(network.entries.all) if entry.name == record.node)
    made = [n for n in analysis.rewritten.model.proto.graph.node if n.name in record.made]
    errors = network.errors(
        [
            {"name": made[0].output[0], "error": 0.5, "reason": "off"},
            {"name": "?", "error": None, "reason": ""},
        ]
    )
    assert errors == [[node, made[0].output[0], 0.5, "off"], [-1, "?", None, ""]]
    relu = next(entry.name for entry in network.entries.all if entry.op == "MatMul")
    times = network.times(
        [{"nodes": [made[0].name, relu], "ms": 2.0}, {"nodes": [made[-1].name, "?"], "ms": 1.0}]
    )
    assert times[node] == [2.0, 2]  # half of the first layer and all of the second
    assert times[network.by_node[relu]] == [1.0, 2]

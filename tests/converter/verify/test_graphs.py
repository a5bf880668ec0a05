"""The original against the rewritten graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper as oh

from tests.converter.models import inverse, load, value
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.verify.graphs import verify_graphs

A = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def test_the_rewritten_graph_is_held_to_the_original(tmp_path: Path) -> None:
    original = load_model(inverse(tmp_path / "m.onnx"))
    rewritten = rewrite(original).model
    feeds = {"x": (np.eye(4) + np.ones((2, 4, 4)) / 9).astype(np.float32)}
    verdict = verify_graphs(original, rewritten, feeds, "mine")
    assert (verdict.status, verdict.engine_run, verdict.inputs) == ("agree", False, "mine")
    wrong = load_model(inverse(tmp_path / "wrong.onnx"))
    wrong.proto.graph.node[0].op_type = "Abs"
    verdict = verify_graphs(original, rewrite(wrong).model, feeds, "mine")
    assert verdict.status == "disagree" and verdict.comparisons[0].relative > 1
    expected = {"y": np.linalg.inv(-feeds["x"])}
    assert verify_graphs(original, rewritten, feeds, "mine", expected=expected).passed
    assert verify_graphs(original, rewritten, feeds, "m", expected={"y": -expected["y"]}).status == "disagree"


def test_graphs_that_do_not_run_are_not_comparable(tmp_path: Path) -> None:
    node = oh.make_node("Foo", ["x"], ["y"], domain="bar")
    unknown = load(tmp_path / "m.onnx", [node], [value("x", (1,))], [value("y", (1,))])
    verdict = verify_graphs(unknown, unknown, {"x": np.ones(1, np.float32)}, "i")
    assert verdict.status == "not comparable" and verdict.reason.startswith("the original: ")
    verdict = verify_graphs(unknown, unknown, {"x": np.ones(1, np.float32)}, "i", expected={"y": A})
    assert verdict.status == "not comparable" and verdict.reason.startswith("the rewritten graph: ")


def test_outputs_of_another_type_are_cast_back(tmp_path: Path) -> None:
    """uint64 is held as the int64 of its bits, float64 as float32; types that nobody told of disagree."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (uint64[3] x, double[3] u) => (uint64[3] y, double[3] v) { y = Mul (x, x) v = Neg (u) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    original = load_model(tmp_path / "m.onnx")
    result = rewrite(original)
    feeds = {"x": np.array([2**63 - 25, 5, 2**64 - 1], np.uint64), "u": np.array([0.1, 2.0, -3.0])}
    model = result.model
    assert verify_graphs(original, model, feeds, "mine", io_types=result.io_types).status == "agree"
    assert verify_graphs(original, model, feeds, "mine").status == "not comparable"

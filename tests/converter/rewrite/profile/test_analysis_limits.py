"""The analysis of ranges terminates: its steps are limited and counted."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fuzzing.bombs import nested_control
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.profile import range_analysis
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis


def analysed(proto: onnx.ModelProto) -> RangeAnalysis:
    return RangeAnalysis(Graph(infer_shapes(Model(proto, Path("m.onnx"), {}))), ProfileRanges())


def test_loops_in_loops_are_not_looked_at_again_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level would multiply the runs of the innermost body by two or more."""
    monkeypatch.setattr(range_analysis, "MOST_AGAIN", 100)
    deepest = next(
        proto
        for proto in map(nested_control, map(random.Random, range(200)))
        if {node.op_type for node in proto.graph.node} == {"Loop", "Identity"}
        and len(proto.SerializeToString()) > 3000
    )
    assert analysed(deepest).nodes == 0


def test_elements_are_followed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_analysis, "MOST_ELEMENTS", 10_000)
    nodes = [helper.make_node("Add", [f"v{i}", "v0"], [f"v{i + 1}"]) for i in range(50)]
    held = [numpy_helper.from_array(np.arange(1000), "v0")]
    graph = helper.make_graph(
        nodes, "g", [], [helper.make_tensor_value_info("v50", TensorProto.INT64, [1000])], held
    )
    done = analysed(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    known = done.known[next(iter(done.known))]
    assert -4000 < done.elements <= 0
    assert known["v2"].numbers() is not None and known["v50"].numbers() is None
    assert known["v50"].sizes == (1000,)


def test_a_vector_of_sizes_is_no_rank_without_end() -> None:
    """A ConstantOfShape of a vector of 2^20 numbers that nobody knows."""
    nodes = [
        helper.make_node("Reshape", ["x", "all"], ["v"]),
        helper.make_node("Cast", ["v"], ["sizes"], to=TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["sizes"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 10, 1 << 10])]
    held = [numpy_helper.from_array(np.array([-1]), "all")]
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name="y")], held)
    done = analysed(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    known = done.known[next(iter(done.known))]
    assert known["sizes"].sizes == (1 << 20,) and known["y"].dims is None

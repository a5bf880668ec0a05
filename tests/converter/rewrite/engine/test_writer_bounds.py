"""Unrolling by rules is bounded, and the bound is checked beforehand."""

from __future__ import annotations

import math
from collections import deque
from itertools import repeat

import onnx
import pytest
from onnx import helper

from fuzzing.bombs import UNROLLED
from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model_bytes import ModelBytes
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.rule_engine import apply_rules
from trtsmith.converter.rewrite.engine.writer import MOST_BYTES, MOST_WRITTEN, Writer
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target


def rows(count: int) -> bytes:
    """So many nodes Abs of one input."""
    names = [f"y{index}" for index in range(count)]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in names]
    graph = helper.make_graph(
        [helper.make_node("Abs", ["x"], [name], name) for name in names], "g", [x], outputs
    )
    made = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(made.SerializeToString())


def graph_of(count: int) -> Graph:
    return Graph(load_model(ModelBytes(rows(count))))


def writer() -> Writer:
    graph = graph_of(1)
    node = graph.root.nodes[0]
    return Writer(NodeView(node.proto, node.name, node.scope))


def test_a_rule_asks_before_it_unrolls() -> None:
    w = writer()
    w.expect("a window of 20,000", nodes=MOST_WRITTEN)
    with pytest.raises(RefusedError, match="a window of 20,001 would make 20,001 nodes") as caught:
        w.expect("a window of 20,001", nodes=MOST_WRITTEN + 1)
    assert all((caught.value.refusal.reason, caught.value.refusal.expected, caught.value.refusal.fix))
    assert w.nodes == []


def test_bytes_are_those_of_all_that_a_rule_asks_for() -> None:
    w = writer()
    w.expect("a half", nbytes=MOST_BYTES // 2)
    w.expect("the other half", nbytes=MOST_BYTES // 2)
    with pytest.raises(RefusedError, match="one more would make constants of 268,435,457 bytes"):
        w.expect("one more", nbytes=1)
    with pytest.raises(RefusedError, match="a length of 4,611,686,018,427,387,904"):
        writer().numbers(1 << 62)


def test_a_rule_that_does_not_ask_is_refused_at_the_node_beyond() -> None:
    w = writer()
    with pytest.raises(RefusedError, match="would make 20,001 nodes"):
        deque(map(w.Neg, repeat(w.x[0])), maxlen=0)
    assert len(w.nodes) == MOST_WRITTEN


def test_all_nodes_of_a_graph_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtsmith.converter.rewrite.engine.writer.MOST_WRITTEN", 2_000)

    @node_rule("long", "Abs")
    def long_rule(node: NodeView) -> Replacement:
        """Abs by 900 nodes."""
        w = Writer(node)
        w.expect("an Abs", nodes=900)
        value = w.x[0]
        for _ in range(900):
            value = w.Neg(value)
        return Replacement(w.finish(value), "many")

    ruled = apply_rules(graph_of(3), [long_rule])
    assert len(ruled.rewrites) == 2
    (declined,) = ruled.declined
    assert declined.refusal.reason == "an Abs would make 900 nodes, beside 1,800 for other nodes"


def test_rules_that_unroll_nothing_have_room_however_many_nodes_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trtsmith.converter.rewrite.engine.writer.MOST_WRITTEN", 2_000)

    @node_rule("short", "Abs")
    def short_rule(node: NodeView) -> Replacement:
        """Abs by 99 nodes."""
        w = Writer(node)
        value = w.x[0]
        for _ in range(99):
            value = w.Neg(value)
        return Replacement(w.finish(value), "some")

    assert len(apply_rules(graph_of(25), [short_rule]).rewrites) == 25


LARGEST = (65_537, 1 << 20, (1 << 31) - 1, (1 << 62) - 1)


@pytest.mark.parametrize("target", [TENSORRT, RTX], ids=lambda target: target.flavour)
@pytest.mark.parametrize("name", UNROLLED)
def test_the_largest_attributes_and_sizes_make_no_more(name: str, target: Target) -> None:
    refused = 0
    for largest in LARGEST:
        try:
            result: Rewritten = rewrite(
                load_model(ModelBytes(UNROLLED[name](largest).SerializeToString())), target=target
            )
        except InvalidModelError:  # a shape that no machine holds
            continue
        refused += bool(result.declined)
        assert len(result.model.proto.graph.node) <= MOST_WRITTEN + 100
        constants = [*result.model.proto.graph.initializer]
        constants += [
            a.t for node in result.model.proto.graph.node for a in node.attribute if a.HasField("t")
        ]
        kinds = [helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize for tensor in constants]
        sizes = [math.prod(tensor.dims) * kind for tensor, kind in zip(constants, kinds, strict=True)]
        assert sum(sizes) <= MOST_BYTES + 4096
    assert refused or name not in REFUSED


REFUSED = frozenset(
    """LRN LpPool LpPool-1d AveragePool MaxPool MaxPool-4d Col2Im Resize MelWeightMatrix MelWeightMatrix-points
    ConvTranspose DFT STFT Det GroupNormalization CropAndResize Scan Loop""".split()  # noqa: SIM905
)
"""Those that are refused at one of the largest values, for each TensorRT."""

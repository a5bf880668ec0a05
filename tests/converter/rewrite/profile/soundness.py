"""Compares the analysis of every value of a graph with onnxruntime's results."""

from collections.abc import Mapping

import numpy as np
import onnx

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.profile.known_value import KnownValue
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis
from trtsmith.converter.rewrite.profile.size_algebra import SizeExpr


class Seen:
    """The values of expressions within one run: equal expressions have to have equal values."""

    def __init__(self) -> None:
        self.values: dict[SizeExpr, tuple[int, str]] = {}
        self.decided = 0

    def check(self, expr: SizeExpr, value: int, where: str) -> None:
        assert expr.low <= value <= expr.high, f"{where}: {value} is not in {expr.low}..{expr.high}"
        known, first = self.values.setdefault(expr, (value, where))
        assert known == value, f"{where} is {value}, and {first} is {known}: one expression"
        self.decided += expr.number is not None

    def check_value(self, one: KnownValue, array: np.ndarray, where: str) -> None:
        if one.dims is not None:
            assert len(one.dims) == array.ndim, f"{where}: rank {array.ndim}, not {len(one.dims)}"
            for axis, (expr, size) in enumerate(zip(one.dims, array.shape, strict=True)):
                self.check(expr, size, f"size {axis} of {where}")
        if one.items is not None:
            assert one.items.shape == array.shape
            pairs = zip(one.exprs() or (), array.reshape(-1).tolist(), strict=True)
            for place, (item, value) in enumerate(pairs):
                if item is not None:
                    assert value == int(value)
                    self.check(item, int(value), f"element {place} of {where}")


def dynamic(proto: onnx.ModelProto, names: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with dynamic dimensions for these inputs, and nothing declared of other values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for value in copy.graph.input:
        if value.name in names:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    return copy


def analysed(model: Model, ranges: ProfileRanges) -> tuple[Graph, RangeAnalysis]:
    graph = Graph(infer_shapes(model))
    return graph, RangeAnalysis(graph, ranges)


def check_run(graph: Graph, analysis: RangeAnalysis, feeds: Mapping[str, np.ndarray]) -> int:
    """How many sizes and elements were numbers, when all that is said of the main graph's values was right."""
    proto = onnx.ModelProto()
    proto.CopyFrom(graph.model().proto)
    names = [name for node in proto.graph.node for name in node.output if name]
    del proto.graph.output[:], proto.graph.value_info[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    outputs = run(graph.source.with_proto(proto), dict(feeds), optimise=False)
    seen = Seen()
    for name, array in feeds.items():
        seen.check_value(analysis.of(graph.root, name), array, name)
    for name in names:
        array = outputs[name]
        if isinstance(array, np.ndarray):
            seen.check_value(analysis.of(graph.root, name), array, name)
    return seen.decided

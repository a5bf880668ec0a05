"""Executors for tests: onnxruntime on a graph that was changed unknown to the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.locate.executors.executor import COMPARABLE, Executor, Onnxruntime, ProbedValue
from trtsmith.converter.locate.found import Located
from trtsmith.converter.locate.locate_fault import SearchGround, locate
from trtsmith.converter.locate.searched_graph import SearchedGraph, SearchOptions
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.verify.allowance import CHANCE, FACTOR
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.problem import Problem

Change = Callable[[onnx.GraphProto], None]


def searched(
    table: NodeTable, values: Mapping[str, ProbedValue], feeds: Arrays, executor: Executor | None = None
) -> SearchedGraph:
    return SearchedGraph(table, {**values}, feeds, executor or Sabotaged(), lambda text: None)


def allowing(outputs: Arrays, precision: str = "tf32", most: float = 0.0) -> SearchOptions:
    """Options by which outputs may differ by so much, or by the least that the precision allows."""
    changed = {n: a * (1 + most / FACTOR / (1 + CHANCE / a.size**0.5)) for n, a in outputs.items()}
    narrow = {n: a.astype(outputs[n].dtype) for n, a in changed.items()}
    return SearchOptions(rounding=RoundedRuns(precision, outputs, [narrow]))


def nothing(graph: onnx.GraphProto) -> None:
    del graph


def node_of(graph: onnx.GraphProto, name: str) -> onnx.NodeProto | None:
    return next((node for node in graph.node if node.name == name), None)


def becomes(name: str, op_type: str, when: Callable[[onnx.GraphProto], bool] = lambda graph: True) -> Change:
    """The node is of another kind, in graphs of which `when` holds."""

    def change(graph: onnx.GraphProto) -> None:
        node = node_of(graph, name)
        if node is not None and when(graph):
            node.op_type = op_type

    return change


def beside(*names: str) -> Callable[[onnx.GraphProto], bool]:
    """Whether all of these values are outputs."""
    return lambda graph: {*names} <= {value.name for value in graph.output}


def in_company(graph: onnx.GraphProto) -> bool:
    return len(graph.node) > 1


def located(model: Model, executor: Executor, feeds: Arrays, options: SearchOptions, *more: Any) -> Located:
    ground = SearchGround(model, rewrite(model), feeds, executor, "given", *more)
    return locate(ground, options, lambda text: None)


@dataclass
class Sabotaged:
    """onnxruntime on the graph after `change`. refused: values that cannot be outputs. asked: the marks of each run."""

    change: Change = nothing
    refused: frozenset[str] = frozenset()
    tf32: bool = False
    float16_sums: bool = False
    fuses: bool = False
    types: frozenset[str] = COMPARABLE
    asked: list[tuple[str, ...]] = field(default_factory=list)

    name = "a sabotaged graph"

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        names = tuple(value.name for value in model.proto.graph.output)
        self.asked.append(names)
        if self.refused.intersection(names):
            raise ConversionError(Problem("cannot be an output", "x", "another", "none"))
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        self.change(proto.graph)
        return Onnxruntime().execute(model.with_proto(proto), feeds)


def to_tf32(array: np.ndarray) -> np.ndarray:
    """float32 cut to 10 bits of mantissa, as some kernels of tensor cores read their operands; float16 as it is."""
    if array.dtype != np.float32:
        return array
    bits = np.ascontiguousarray(array).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).reshape(array.shape)


INFO = EngineInfo("tensorrt_rtx", "1.6.1.120", "a GPU", "9.0", (), (), 1, 0)


class FakeTensorRT:
    """Builds by keeping the graph, runs by onnxruntime on the graph after `change`."""

    def __init__(self, change: Change = nothing) -> None:
        self.requests: list[BuildRequest] = []
        self.change = change

    def build(self, request: BuildRequest) -> BuildResult:
        self.requests.append(request)
        save_model(load_model(request.onnx_path), request.engine_path)
        return BuildResult(request.engine_path, 1, 0.0, "tensorrt_rtx", "1.6.1.120", ("sm90",), (), (), 1, ())

    def run(self, request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        model = load_model(request.engine_path)
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        self.change(proto.graph)
        outputs = tuple(Onnxruntime().execute(model.with_proto(proto), feed) for feed in feeds)
        return RunResult(INFO, outputs, 0.0)

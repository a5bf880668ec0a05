"""Executors for tests: onnxruntime on a graph that was changed behind the search's back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx

from converter.errors import ConversionError
from converter.locate.executor import COMPARABLE, Arrays, Onnxruntime
from converter.modelfile.model import Model
from importers.problem import Problem

Change = Callable[[onnx.GraphProto], None]


def nothing(graph: onnx.GraphProto) -> None:
    del graph


def node_of(graph: onnx.GraphProto, name: str) -> onnx.NodeProto | None:
    return next((node for node in graph.node if node.name == name), None)


@dataclass
class Sabotaged:
    """onnxruntime on the graph after `change`. refused: values that cannot be outputs. asked: the marks of each run."""

    change: Change = nothing
    refused: frozenset[str] = frozenset()
    tf32: bool = False
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

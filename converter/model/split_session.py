"""Runs a model whose nodes are computed in part by user functions, and by onnxruntime in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.node_functions import NodeFunction, function_for
from trtsmith.importers.dtypes import NUMBERS

Values = dict[str, np.ndarray]
Run = Callable[[Model, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Runs a part in onnxruntime: its outputs by name."""


@dataclass(frozen=True)
class SplitOutput:
    name: str


class SplitSession:
    """Implements the part of InferenceSession that trtsmith uses: get_outputs and run.

    A node belongs to the part behind as many functions as the longest way to it passes through.
    """

    def __init__(self, model: Model, run: Run) -> None:
        self._model, self._run = model, run
        graph = model.proto.graph
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._functions = {
            index: found for index, node in enumerate(graph.node) if (found := _function(node))
        }
        self._parts = self._levels()

    def get_outputs(self) -> list[SplitOutput]:
        """Returns the model's outputs."""
        return [SplitOutput(value.name) for value in self._model.proto.graph.output]

    def run(
        self, names: Sequence[str], feeds: Mapping[str, np.ndarray], options: object = None
    ) -> list[np.ndarray]:
        """Returns the outputs with these names. Raises ConversionError if onnxruntime or a function fails. options: for each
        part.
        """
        del options  # each part's run asks for them itself
        values: Values = dict(feeds)
        nodes = self._model.proto.graph.node
        wanted = set(names)
        for position, (part, called) in enumerate(self._parts):
            behind = [index for one in self._parts[position + 1 :] for index in (*one[0], *one[1])]
            later = wanted.union(*(_reads(nodes[index]) for index in (*called, *behind)))
            self._run_part(part, later, values)
            for index in called:
                node = nodes[index]
                inputs = [self._value(name, values) if name else None for name in node.input]
                values.update(zip(node.output, self._functions[index].outputs(node, inputs), strict=True))
        return [self._value(name, values) for name in names]

    def _run_part(self, part: Sequence[int], later: set[str], values: Values) -> None:
        nodes = [self._model.proto.graph.node[index] for index in part]
        made = [name for node in nodes for name in node.output if name]
        outputs = [name for name in made if name in later]
        if not outputs:
            return
        proto = onnx.ModelProto()
        source = self._model.proto
        proto.ir_version = source.ir_version
        proto.opset_import.extend(source.opset_import)
        proto.functions.extend(source.functions)
        proto.graph.name = source.graph.name or "part"
        proto.graph.node.extend(nodes)
        read = dict.fromkeys(name for node in nodes for name in _reads(node) if name not in set(made))
        fed: Values = {}
        for name in read:
            if name in values:
                fed[name] = values[name]
                number = NUMBERS[str(fed[name].dtype)]
                proto.graph.input.append(helper.make_tensor_value_info(name, number, fed[name].shape))
            elif name in self._tensors:
                proto.graph.initializer.append(self._tensors[name])
        declared = {value.name: value for value in source.graph.output}
        proto.graph.output.extend(declared.get(name, onnx.ValueInfoProto(name=name)) for name in outputs)
        values.update(self._run(self._model.with_proto(proto), fed))

    def _value(self, name: str, values: Values) -> np.ndarray:
        return values[name] if name in values else self._model.array(self._tensors[name])

    def _levels(self) -> list[tuple[list[int], list[int]]]:
        """Levels from inputs to outputs: nodes for onnxruntime, then the nodes for functions behind them."""
        level: dict[str, int] = {}
        parts: list[tuple[list[int], list[int]]] = [([], [])]
        for index, node in enumerate(self._model.proto.graph.node):
            mine = max((level.get(name, 0) for name in _reads(node)), default=0)
            while len(parts) <= mine + 1:
                parts.append(([], []))
            parts[mine][index in self._functions].append(index)
            behind = mine + (index in self._functions)
            level.update(dict.fromkeys(node.output, behind))
        return parts


def _function(node: onnx.NodeProto) -> NodeFunction | None:
    """The function that computes the node. Raises ConversionError for a node inside a branch or a loop."""
    for inner in _inside(node):
        if function_for(inner.domain, inner.op_type) is not None:
            raise ConversionError(
                f"node {inner.name!r} ({inner.op_type}) is inside the {node.op_type} {node.name!r}",
                f"--reference, node {inner.name!r} ({inner.op_type})",
                "nodes at the top level of the graph, for functions to compute",
                "give a function for the whole model (--reference MODULE:FUNCTION), or --expected",
            )
    return function_for(node.domain, node.op_type)


def _inside(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield inner
                yield from _inside(inner)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The values that the node or its subgraphs may read."""
    yield from filter(None, node.input)
    for inner in _inside(node):
        yield from filter(None, inner.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)

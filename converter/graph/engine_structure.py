"""Separates a graph's structure from its weights, so that an engine takes weights of the same structure only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import onnx

from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.problem import Problem

_DIGITS = 16
"""Of a SHA-256, in hexadecimal: 64 bits tell apart the nodes and weights of one model."""

_MOST = 8
"""Differences of a kind that are told."""

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@dataclass(frozen=True)
class Weight:
    """A constant of a graph. digest: of its bytes."""

    dtype: str
    shape: tuple[int, ...]
    digest: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Structure(PlainData):
    """Summary of a graph: its structure, and the digests of its weights.

    nodes:   of the graph and then of those inside it, in order: what a node is called, and a digest of its operator,
        attributes and the names of the values that it reads and gives.
    weights: by name, initializers and the values of Constant nodes. TensorRT's parser calls weights by these names.
    """

    nodes: tuple[tuple[str, str], ...]
    weights: Mapping[str, Weight]

    def changed(self, new: Structure) -> tuple[str, ...]:
        """Names the weights that differ in `new`, a graph of the same structure."""
        return tuple(name for name, one in self.weights.items() if new.weights[name] != one)


def structure_of(model: Model) -> Structure:
    nodes: list[tuple[str, str]] = []
    weights: dict[str, Weight] = {}
    for graph in all_graphs(model.proto.graph):
        named = [(tensor.name, tensor) for tensor in graph.initializer]
        for node in graph.node:
            value = _constant(node)
            if value is not None:
                named.append((node.output[0], value))
            nodes.append((f"{node.name!r} ({node.op_type})", _digest(_words(node, model))))
        for name, tensor in named:
            array = model.array(tensor)
            held = _digest(iter([array.tobytes()]))
            weights[name] = Weight(dtype_name(tensor.data_type), array.shape, held)
    return Structure(tuple(nodes), weights)


def differences(engine: Structure, new: Structure, where: str, fix: str) -> list[Problem]:
    """Lists the first differences of each kind between the graph of a model and that of an engine. where: the model."""
    problems = [
        Problem(what, f"weight {name!r} of {where}", expected, fix)
        for name, what, expected in _of_weights(engine.weights, new.weights)
    ][:_MOST]
    if [digest for _, digest in engine.nodes] != [digest for _, digest in new.nodes]:
        pairs = zip_longest(engine.nodes, new.nodes, fillvalue=("none", ""))
        wrong = [(here, there) for (here, a), (there, b) in pairs if a != b]
        problems += [
            Problem(
                f"the graph has another node than the engine's ({len(wrong)} differ): {there}",
                f"{where}; {counted(len(new.nodes), 'node')}",
                f"{here}, with the same attributes, inputs and outputs; {counted(len(engine.nodes), 'node')}",
                fix,
            )
            for here, there in wrong[:1]
        ]
    return problems


def _of_weights(engine: Mapping[str, Weight], new: Mapping[str, Weight]) -> Iterator[tuple[str, str, str]]:
    """(name, what is wrong, what was expected)"""
    for name, one in engine.items():
        other = new.get(name)
        if other is None:
            yield name, f"the weight {name!r} is missing", f"{one}, as in the engine"
        elif other.shape != one.shape:
            yield name, f"the weight {name!r} has another shape: {other}", f"{one}, as in the engine"
        elif other.dtype != one.dtype:
            yield name, f"the weight {name!r} has another type: {other}", f"{one}, as in the engine"
    for name in new.keys() - engine.keys():
        yield name, f"the engine has no weight {name!r}", "the weights of the engine's model, by their names"


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain:
        return None
    return next((one.t for one in node.attribute if one.name == "value"), None)


def _words(node: onnx.NodeProto, model: Model) -> Iterator[bytes]:
    """Everything of a node but its name, the values of weights and the graphs inside it, which have nodes of their own."""
    yield repr((node.domain, node.op_type, [*node.input], [*node.output])).encode()
    constant = _constant(node) is not None
    for attribute in sorted(node.attribute, key=lambda one: one.name):
        yield attribute.name.encode()
        if attribute.type == onnx.AttributeProto.TENSOR:
            if not constant:
                array = model.array(attribute.t)
                yield f"{array.dtype}{array.shape}".encode() + array.tobytes()
        elif attribute.type not in _GRAPHS:
            yield attribute.SerializeToString(deterministic=True)


def _digest(parts: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:_DIGITS]

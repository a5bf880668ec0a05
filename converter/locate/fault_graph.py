"""Answers the questions of the search about a graph: who makes a value, what a node reads, what depends on the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx

from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

SIZES_ONLY = frozenset({"Shape", "Size"})
"""Operators whose result depends on their input's shape and not on its values."""


@dataclass(frozen=True, eq=False)
class GraphView:
    """The main graph of a model. Nodes go by their index, which is their place in the order of execution."""

    model: Model

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        return tuple(self.model.proto.graph.node)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Graph inputs, initializers that old models list among them left out."""
        return tuple(v.name for v in self.model.proto.graph.input if v.name not in self.initializers)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.model.proto.graph.output)

    @cached_property
    def initializers(self) -> Mapping[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self.model.proto.graph.initializer}

    @cached_property
    def constants(self) -> Mapping[str, onnx.TensorProto]:
        """Tensors of the nodes that are constants, by the value that such a node makes."""
        nodes = (node for node in self.nodes if node.op_type == "Constant")
        return {node.output[0]: a.t for node in nodes for a in node.attribute if a.name == "value"}

    @cached_property
    def producer(self) -> Mapping[str, int]:
        """Index of the node that makes a value."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The values of the main graph that each node reads, those that its subgraphs read among them."""
        return tuple(tuple(dict.fromkeys(read_by(node))) for node in self.nodes)

    @cached_property
    def readers(self) -> Mapping[str, tuple[int, ...]]:
        """Indices of the nodes that read a value, in order."""
        found: dict[str, list[int]] = {}
        for i, names in enumerate(self.reads):
            for name in names:
                found.setdefault(name, []).append(i)
        return {name: tuple(indices) for name, indices in found.items()}

    @cached_property
    def made(self) -> tuple[str, ...]:
        """Values that nodes compute, in order; constants are none of them."""
        return tuple(n for node in self.nodes if node.op_type != "Constant" for n in node.output if n)

    @cached_property
    def varying(self) -> frozenset[str]:
        """Values that depend on the values of graph inputs. For inputs of one size the others are constants."""
        found = set(self.inputs)
        for node, reads in zip(self.nodes, self.reads, strict=True):
            if node.op_type not in SIZES_ONLY and not found.isdisjoint(reads):
                found.update(name for name in node.output if name)
        return frozenset(found)

    def made_by(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """All values that these nodes make, constants among them."""
        return tuple(name for i in nodes for name in self.nodes[i].output if name)

    def label(self, index: int) -> str:
        """What the node is called; by its first output where it has no name."""
        return (
            self.nodes[index].name or f"(unnamed, makes {next(filter(None, self.nodes[index].output), '')})"
        )


def op_name(node: onnx.NodeProto) -> str:
    """The op_type, with its domain where that is not ONNX's."""
    domain = normalise_domain(node.domain)
    return f"{domain}::{node.op_type}" if domain else node.op_type


def with_outputs(model: Model, outputs: Iterable[onnx.ValueInfoProto], *, only: bool = False) -> Model:
    """The model with more values as graph outputs; only: with no others."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    if only:
        del proto.graph.output[:]
    have = {value.name for value in proto.graph.output}
    proto.graph.output.extend(value for value in outputs if value.name not in have)
    return model.with_proto(proto)

"""Numbers the nodes of a graph and its subgraphs, and lists the values that they read and make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import onnx

from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

SIZES_ONLY = frozenset({"Shape", "Size"})
"""Operators whose result depends on their input's shape and not on its values."""


@dataclass(frozen=True, eq=False)
class NumberedNode:
    """node: as the model has it. number: its place, a node before those inside it. parent: the node around it, if any."""

    node: onnx.NodeProto
    number: int
    parent: int | None


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of a model's main graph. Constant nodes have no number: they go with the nodes that read them."""

    model: Model

    @cached_property
    def entries(self) -> tuple[NumberedNode, ...]:
        found: list[NumberedNode] = []
        _collect(self.model.proto.graph, None, found)
        return tuple(found)

    @cached_property
    def nodes(self) -> tuple[onnx.NodeProto, ...]:
        return tuple(entry.node for entry in self.entries)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Graph inputs, without the initializers that old models list among them."""
        return tuple(v.name for v in self.model.proto.graph.input if v.name not in self.initializers)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.model.proto.graph.output)

    @cached_property
    def initializers(self) -> dict[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self.model.proto.graph.initializer}

    @cached_property
    def constant_nodes(self) -> dict[str, onnx.NodeProto]:
        """Constant nodes of the main graph, by the value that they make."""
        return {node.output[0]: node for node in self.model.proto.graph.node if is_constant(node)}

    @cached_property
    def constants(self) -> dict[str, onnx.TensorProto]:
        """Initializers, and the tensors of Constant nodes by the value that they make."""
        made = self.constant_nodes.items()
        return {
            **self.initializers,
            **{n: a.t for n, node in made for a in node.attribute if a.name == "value"},
        }

    @cached_property
    def made(self) -> tuple[str, ...]:
        """Values that nodes of the main graph compute, in order."""
        return self.made_by(self.outer)

    def made_by(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(name for number in numbers for name in self.nodes[number].output if name)

    def label(self, number: int) -> str:
        """Names the node; by its first output if it has no name."""
        node = self.nodes[number]
        return node.name or f"(unnamed, makes {next(filter(None, node.output), '')})"

    @cached_property
    def outer(self) -> tuple[int, ...]:
        """Numbers of the nodes of the main graph."""
        return tuple(entry.number for entry in self.entries if entry.parent is None)

    @cached_property
    def spans(self) -> tuple[int, ...]:
        """By number: how many nodes are inside the node, at any depth; their numbers follow its own."""
        counts = [0] * len(self.entries)
        for entry in reversed(self.entries):
            if entry.parent is not None:
                counts[entry.parent] += counts[entry.number] + 1
        return tuple(counts)

    def inside(self, parents: Collection[int]) -> tuple[int, ...]:
        """Returns numbers of the nodes in graphs of these nodes, at any depth."""
        return tuple(
            sorted({n for parent in parents for n in range(parent + 1, parent + 1 + self.spans[parent])})
        )

    def with_bodies(self, numbers: Collection[int]) -> frozenset[int]:
        """Returns these nodes and all nodes inside them."""
        return frozenset((*numbers, *self.inside(numbers)))

    @cached_property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The values that each node, by its number, reads from graphs around its own bodies."""
        return tuple(tuple(dict.fromkeys(read_by(entry.node))) for entry in self.entries)

    @cached_property
    def producer(self) -> dict[str, int]:
        return {name: e.number for e in self.entries for name in e.node.output if name}

    @cached_property
    def _makers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry in self.entries:
            for name in filter(None, entry.node.output):
                found.setdefault(name, []).append(entry.number)
        return found

    def makers(self, name: str, reader: int) -> list[int]:
        """Returns the nodes that may make the value which this node reads: in bodies, those in the same node of the main
        graph.
        """
        found = self._makers.get(name, [])
        if len(found) < 2:
            return found
        root = self._root(reader)
        return [number for number in found if self._root(number) in (number, root)]

    def _root(self, number: int) -> int:
        while (parent := self.entries[number].parent) is not None:
            number = parent
        return number

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """Returns numbers of the nodes of the main graph that read a value."""
        found: dict[str, list[int]] = {}
        for number in self.outer:
            for name in self.reads[number]:
                found.setdefault(name, []).append(number)
        return found

    @cached_property
    def repeated(self) -> frozenset[str]:
        """Names that several graphs use for values of their own: no input of the whole can stand for one of them."""
        seen: set[str] = set()
        twice: set[str] = set()
        for name in _made_anywhere(self.model.proto.graph):
            (twice if name in seen else seen).add(name)
        return frozenset(twice)

    @cached_property
    def varying(self) -> frozenset[str]:
        """Values that depend on the values of inputs or on a loop's iteration. All others follow from the inputs' sizes."""
        found = set(self.inputs)
        for entry in self.entries:
            for graph in subgraphs(entry.node):
                found.update(value.name for value in graph.input)
        for (
            entry
        ) in self.entries:  # a body may come after what makes its outputs vary: its node is asked for all
            if entry.node.op_type in SIZES_ONLY and not normalise_domain(entry.node.domain):
                continue
            inner = [self.entries[n].node.output for n in self.inside({entry.number})] if _has(entry) else []
            if not found.isdisjoint(self.reads[entry.number]) or (_has(entry) and _iterates(entry)):
                found.update(name for name in entry.node.output if name)
                found.update(name for outputs in inner for name in outputs)
        return frozenset(found)

    def neighbours(self, numbers: Collection[int]) -> set[int]:
        """Returns the nodes of the main graph that make what these read, or read what they make."""
        found: set[int] = set()
        for number in numbers:
            found.update(self.producer[name] for name in self.reads[number] if name in self.producer)
            for name in self.entries[number].node.output:
                found.update(self.readers.get(name, ()))
        return {number for number in found if self.entries[number].parent is None}


def _has(entry: NumberedNode) -> bool:
    return next(iter(subgraphs(entry.node)), None) is not None


def _iterates(entry: NumberedNode) -> bool:
    return any(graph.input for graph in subgraphs(entry.node))


def _collect(graph: onnx.GraphProto, parent: int | None, found: list[NumberedNode]) -> None:
    for node in graph.node:
        if is_constant(node):
            continue
        entry = NumberedNode(node, len(found), parent)
        found.append(entry)
        for inner in subgraphs(node):
            _collect(inner, entry.number, found)


def is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and not normalise_domain(node.domain)


def _made_anywhere(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from filter(None, node.output)
        for inner in subgraphs(node):
            yield from _made_anywhere(inner)

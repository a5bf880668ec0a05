"""Cuts nodes out of a graph into a separate model; values from other nodes become inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.reduction.node_table import NodeTable, is_constant
from trtsmith.converter.engine.reduction.value_sizes import MOST_SIZES, Shape, ValueSizes
from trtsmith.converter.graph.constant_nodes import constant_value
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import refill, subgraphs

_NO_PROFILES: tuple[Mapping[str, Profile], ...] = ()


@dataclass(frozen=True, eq=False)
class WholeGraph:
    """The whole model to reduce: its nodes, known values, and the profiles of its inputs.

    given: the values that can be inputs, which have the first of their sizes then; None: all whose sizes are known.
    """

    table: NodeTable
    sizes: ValueSizes
    profiles: tuple[Mapping[str, Profile], ...] = _NO_PROFILES
    given: Collection[str] | None = None

    def can_be_given(self, name: str) -> bool:
        """Tells whether a value can be replaced by an input or a constant."""
        if self.given is not None:
            return name in self.given
        if name in self.table.repeated or name not in self.sizes.shapes:
            return False
        # A vector whose length the sizes decide is none of TensorRT's shape inputs.
        if name in self.sizes.fixed:
            return len({array.shape for array in self.sizes.fixed[name]}) == 1
        kind = self.sizes.types.get(name)
        if kind is None or not kind.elem_type:
            return False
        # What sizes decide, and is not known, must be computed: as an input TensorRT would not know its range.
        return name in self.table.varying or int(np.prod(self.sizes.shapes[name][0])) > MOST_SIZES

    def passes(self, number: int) -> str | None:
        """Returns a stand-in for a node's result: its first input of the same type and sizes; None without one."""
        entry = self.table.entries[number]
        names = [name for name in entry.node.output if name]
        if entry.parent is not None or len(names) != 1 or next(subgraphs(entry.node), None) is not None:
            return None
        made = self._form(names[0])
        same = (n for n in entry.node.input if n in self.table.producer and self._form(n) == made)
        return None if made is None else next(same, None)

    def _form(self, name: str) -> tuple[int, tuple[Shape, ...] | None] | None:
        """Type, and sizes as far as they are known."""
        kind = self.sizes.types.get(name)
        return None if kind is None else (int(kind.elem_type), self.sizes.shapes.get(name))


@dataclass(frozen=True, eq=False)
class Cut:
    """A part of the graph. nodes: their numbers; ~n for a bypassed n. profiles: of its inputs.

    proto: refers to weights as the model does.
    """

    nodes: frozenset[int]
    proto: onnx.ModelProto
    profiles: tuple[Mapping[str, Profile], ...]


def closed(subject: WholeGraph, wanted: Collection[int]) -> frozenset[int]:
    """Adds to the nodes their enclosing nodes, and the producers of values that cannot become inputs."""
    table = subject.table
    passed = {number for number in wanted if number < 0}
    found: set[int] = set(passed)
    waiting = [number for number in wanted if number >= 0]

    def need(name: str, reader: int) -> None:
        name = _resolved(subject, passed, name)
        if name in table.producer and not subject.can_be_given(name):
            waiting.extend(table.makers(name, reader))

    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        entry = table.entries[number]
        if entry.parent is not None:
            waiting.append(entry.parent)
        for name in entry.node.input:
            need(name, number)
        for graph in subgraphs(entry.node):  # what a body gives on must be made, or given
            for value in graph.output:
                need(value.name, number)
    return frozenset(found)


def _resolved(subject: WholeGraph, passed: Collection[int], name: str) -> str:
    """The value that is read in the place of another whose node is passed by."""
    while passed and name in subject.table.producer and ~subject.table.producer[name] in passed:
        instead = subject.passes(subject.table.producer[name])
        if instead is None:
            break
        name = instead
    return name


def cut(subject: WholeGraph, wanted: Collection[int]) -> Cut:
    """Makes the model of these nodes (`closed`)."""
    keep = closed(subject, wanted)
    work = _Cutting(subject, keep)
    return Cut(keep, work.model(), tuple(work.profile(i) for i in range(len(subject.profiles))))


@dataclass
class _Cutting:
    """One cut on its way. given: values that are inputs of it. numbers: of nodes, in the order of the walk."""

    subject: WholeGraph
    keep: frozenset[int]
    given: list[str] = field(default_factory=list)
    _next: int = 0

    def model(self) -> onnx.ModelProto:
        whole = self.subject.table.model.proto
        proto = onnx.ModelProto(
            ir_version=whole.ir_version, opset_import=whole.opset_import, functions=whole.functions
        )
        proto.graph.name = "cut"
        entries = self.subject.table.entries
        outer = sorted(n for n in self.keep if n >= 0 and entries[n].parent is None)
        proto.graph.node.extend(self._with_cut_bodies(entries[n].node, n) for n in outer)
        self._pass_by(proto.graph)
        read = dict.fromkeys(name for node in proto.graph.node for name in read_by(node))
        made = {name for node in proto.graph.node for name in node.output if name}
        self._add_constants(proto.graph, [name for name in read if name not in made])
        have = {name for node in proto.graph.node for name in node.output}
        have |= {tensor.name for tensor in proto.graph.initializer}
        for sparse in whole.graph.sparse_initializer:
            if sparse.values.name in read:
                proto.graph.sparse_initializer.append(sparse)
                have.add(sparse.values.name)
        inputs = {value.name: value for value in whole.graph.input} if self.subject.given is None else {}
        for name in read:
            if name not in have:
                self.given.append(name)
                proto.graph.input.append(inputs.get(name) or self._info(name))
        proto.graph.output.extend(self._outputs(whole, proto.graph, set(read)))
        return proto

    def _pass_by(self, graph: onnx.GraphProto) -> None:
        """Lets readers of nodes that are passed by read what is read in their place."""
        passed = {number for number in self.keep if number < 0}
        entries = self.subject.table.entries
        names = [name for number in passed for name in entries[~number].node.output if name]
        instead = {name: _resolved(self.subject, passed, name) for name in names}
        for node in graph.node if instead else ():
            rename_values(node, instead, self._fresh.value)

    @cached_property
    def _fresh(self) -> FreshNames:
        names = FreshNames()
        names.take(n for e in self.subject.table.entries for n in (*e.node.input, *e.node.output))
        return names

    def _with_cut_bodies(self, node: onnx.NodeProto, number: int) -> onnx.NodeProto:
        bodies = list(subgraphs(node))
        if bodies:
            self._next = number + 1
            node = _copy(node)
            for old, new in zip(bodies, subgraphs(node), strict=True):
                self._cut_body(old, new)
        return node

    def _nodes(self, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        """The nodes of a body that are kept, and its constants."""
        kept = []
        for node in graph.node:
            if is_constant(node):
                kept.append(node)
                continue
            number = self._next
            self._next += 1 + self.subject.table.spans[number]
            if number in self.keep:
                after = self._next
                kept.append(self._with_cut_bodies(node, number))
                self._next = after
        return kept

    def _cut_body(self, old: onnx.GraphProto, new: onnx.GraphProto) -> None:
        nodes = self._nodes(old)
        own = {value.name for value in old.input} | {tensor.name for tensor in old.initializer}
        own.update(name for node in nodes for name in node.output)
        nodes = [node for node in nodes if not is_constant(node) or _is_read(node, nodes, old)]
        del new.node[:], new.value_info[:]
        new.node.extend(nodes)
        for value in new.output:
            if value.name not in own:  # given from outside, and an output must be made here
                name = self._fresh.value(f"{value.name}/given")
                new.node.append(helper.make_node("Identity", [value.name], [name], name=name))
                value.name = name
        read = {*free_names_of(nodes), *(value.name for value in new.output)}
        held = [tensor for tensor in old.initializer if tensor.name in read]
        refill(new.initializer, held)

    def _add_constants(self, graph: onnx.GraphProto, names: Collection[str]) -> None:
        """Initializers that are read, Constant nodes as initializers, and values that are the same at all corners."""
        table = self.subject.table
        for name in names:
            arrays = self.subject.sizes.fixed.get(name, ())
            if name in table.initializers:
                graph.initializer.append(table.initializers[name])
            elif name in table.constant_nodes:
                node = table.constant_nodes[name]
                array = constant_value(node, table.model)
                if array is None:
                    graph.node.insert(0, node)
                else:
                    graph.initializer.append(table.model.tensor(np.asarray(array), name))
            elif len(arrays) and all(np.array_equal(arrays[0], other) for other in arrays[1:]):  # NaN != NaN
                graph.initializer.append(numpy_helper.from_array(np.asarray(arrays[0]), name))

    def _info(self, name: str) -> onnx.ValueInfoProto:
        value = onnx.ValueInfoProto(name=name)
        kind = value.type.tensor_type
        kind.CopyFrom(self.subject.sizes.types[name])
        shape = self.subject.sizes.shapes[name][0]
        if not kind.HasField("shape"):  # inference knows it for numbers only
            kind.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in shape)
        return value

    def _outputs(
        self, whole: onnx.ModelProto, graph: onnx.GraphProto, read: Collection[str]
    ) -> list[onnx.ValueInfoProto]:
        """The values that the cut makes and none of its nodes reads."""
        declared = {value.name: value for value in whole.graph.output}
        found = []
        for node in graph.node:
            if is_constant(node):
                continue
            free = [name for name in node.output if name and name not in read]
            if len(free) < sum(map(bool, node.output)):
                free = [name for name in free if name in declared]
            for name in free:
                kind = self.subject.sizes.types.get(name)
                known = kind is not None and kind.elem_type and name in self.subject.sizes.shapes
                value = self._info(name) if known else onnx.ValueInfoProto(name=name)
                if kind is not None and kind.elem_type and not known:
                    value.type.tensor_type.elem_type = kind.elem_type
                found.append(declared.get(name) or value)
        return found

    def profile(self, index: int) -> dict[str, Profile]:
        """Sizes of the inputs that have dynamic ones, in the profile of that number."""
        whole, sizes = self.subject.profiles[index], self.subject.sizes
        found = {}
        for name in self.given:
            if name in whole:
                found[name] = whole[name]
            elif name in sizes.fixed:
                low, usual, high = (np.ravel(a) for a in sizes.fixed[name][3 * index : 3 * index + 3])
                found[name] = Profile(
                    tuple(map(int, np.minimum(np.minimum(low, usual), high))),
                    tuple(map(int, usual)),
                    tuple(map(int, np.maximum(np.maximum(low, usual), high))),
                    values=True,
                )
            elif name in sizes.shapes:
                found[name] = sizes.profile(name, index)
        return found


def free_names_of(nodes: Collection[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in read_by(node)}


def _is_read(constant: onnx.NodeProto, nodes: Collection[onnx.NodeProto], graph: onnx.GraphProto) -> bool:
    name = constant.output[0]
    return any(value.name == name for value in graph.output) or name in free_names_of(nodes)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    return copied

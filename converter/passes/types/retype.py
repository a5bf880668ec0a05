"""Walks a model's graphs and carries values of types that TensorRT does not compute in: see the package's docstring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto as T
from onnx import inliner

from converter.infer import infer_shapes
from converter.modelfile.model import Model
from converter.passes.base import Rewrite
from converter.passes.scopes import all_graphs, subgraphs
from converter.passes.types.carriers import (
    CARRIERS,
    FLOATS,
    INTEGERS,
    QUANTISED,
    carried_array,
    carrier,
    dtype_name,
    retyped,
)
from converter.passes.types.casts import Rounding, converted
from converter.passes.types.emitter import Emitter
from converter.passes.types.io_types import IoType
from converter.passes.types.names import Names, element_type
from converter.passes.types.operators import (
    IN_FLOAT,
    IN_ONNX_TYPES,
    NOT_IN_INT8,
    TYPE_ATTRIBUTES,
    compute,
    copied,
)
from converter.passes.types.values import Values, tensor_elem
from importers.registry import normalise_domain

NAME = "types"

FLOAT64 = "float64 is computed in float32: 7 digits instead of 16, and infinite from 3.4e38 on"


@dataclass(frozen=True)
class Carried:
    """The model with carried types (itself if it has none), a record for each node that changed, and changed I/O."""

    model: Model
    rewrites: tuple[Rewrite, ...] = ()
    io_types: tuple[IoType, ...] = ()


def carry_types(model: Model) -> Carried:
    """`model` has its shapes inferred; so has the result."""
    if not _candidate(model.proto):
        return Carried(model)
    proto = model.proto
    if proto.functions:
        flat = inliner.inline_local_functions(proto)
        model = infer_shapes(model.with_proto(flat))
    copy = onnx.ModelProto()
    copy.CopyFrom(model.proto)
    work = _Retyper(model.with_proto(copy))
    work.graph(copy.graph, None)
    if not work.changed:
        return Carried(model if not proto.functions else model.with_proto(proto))
    return Carried(infer_shapes(work.model), tuple(work.rewrites), tuple(work.io_types))


def _candidate(proto: onnx.ModelProto) -> bool:
    """Whether any value may have a type to carry, or be an int8 that a node cannot take. Cheap."""
    odd = CARRIERS.keys() | {T.INT8}
    return any(elem in odd for graph in all_graphs(proto.graph) for elem in _elements(graph)) or bool(
        proto.functions
        and any(elem in odd for f in proto.functions for node in f.node for elem in _attribute_types(node))
    )


def _elements(graph: onnx.GraphProto) -> Iterator[int]:
    yield from (tensor.data_type for tensor in graph.initializer)
    yield from (element_type(value.type) for value in (*graph.input, *graph.output, *graph.value_info))
    for node in graph.node:
        yield from _attribute_types(node)


def _attribute_types(node: onnx.NodeProto) -> Iterator[int]:
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES:
            yield attribute.i
        elif attribute.HasField("t"):
            yield attribute.t.data_type


_LOSSES: Mapping[tuple[int, str], str] = {
    **{
        (T.UINT64, op): "uint64 is read as int64: right for numbers below 2**63"
        for op in ("Pow", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
    },
    **{
        (elem, op): "integers are computed in float32: exact up to 2**24"
        for elem in (T.UINT32, T.UINT64)
        for op in IN_FLOAT
    },
}
"""By type and operator, what may differ from ONNX; whole numbers are exact otherwise."""


class _Retyper:
    """One model. Its proto is changed in place, graph by graph, from the outside in and in the nodes' order."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.rewrites: list[Rewrite] = []
        self.io_types: list[IoType] = []
        self.changed = False
        self._names = Names(model.proto)
        self._told_float64 = False
        self._bytes_out = frozenset(v.name for v in model.proto.graph.output if tensor_elem(v) == T.UINT8)

    def graph(self, graph: onnx.GraphProto, outer: Values | None) -> None:
        emit = Emitter(self._names)
        values = Values(graph, emit, outer)
        readers = _readers(graph)
        wanted = _wanted(graph)
        self._inputs(graph, values, outer is None, readers, wanted)
        self._initializers(graph, values, readers, wanted)
        results = {v.name: tensor_elem(v) for v in graph.output}
        edge = {name for name, elem in results.items() if outer is None and elem == T.UINT8}
        last = {name for name in edge if name not in readers}
        for node in graph.node:
            self._node(node, values, last)
        self._outputs(graph, values, edge, outer is None)
        del graph.node[:]
        graph.node.extend(emit.nodes)
        for value in graph.value_info:
            if not values.kept(value.name):
                self.changed |= retyped(value.type)

    # the ends of a graph

    def _inputs(
        self,
        graph: onnx.GraphProto,
        values: Values,
        main: bool,
        readers: dict[str, set[str]],
        wanted: set[str],
    ) -> None:
        for value in graph.input:
            elem = tensor_elem(value)
            uses = readers.get(value.name, set())
            if (main and elem == T.UINT8) or (elem in QUANTISED and value.name in wanted):
                values.keep(value.name, elem)
                if elem == T.UINT8 and _INSIDE in uses:
                    values.carried(value.name)  # TensorRT wants the Cast next to the input, not in a branch
                continue
            kind = value.type.WhichOneof("value")
            if not retyped(value.type):
                continue
            self.changed = True
            values.carry(value.name, elem or values.elem(value.name))
            if main and kind == "tensor_type":
                self._io(value.name, elem)

    def _io(self, name: str, elem: int) -> None:
        self.io_types.append(IoType(name, dtype_name(elem), dtype_name(carrier(elem))))

    def _initializers(
        self, graph: onnx.GraphProto, values: Values, readers: dict[str, set[str]], wanted: set[str]
    ) -> None:
        inputs = {value.name for value in graph.input}
        more: list[onnx.TensorProto] = []
        for tensor in graph.initializer:
            elem = tensor.data_type
            if elem not in CARRIERS or (tensor.name in inputs and values.kept(tensor.name)):
                continue
            converted_ = self._tensor(tensor)
            self.changed = True
            if tensor.name not in wanted:
                tensor.CopyFrom(converted_)
                values.carry(tensor.name, elem)
                continue
            values.keep(tensor.name, elem)
            if readers.get(tensor.name, set()) - IN_ONNX_TYPES - _MOVES:  # others want it in its carrier
                converted_.name = self._names.value(f"{tensor.name}/{dtype_name(carrier(elem))}")
                more.append(converted_)
                values.carry(tensor.name, elem, converted_.name)
        graph.initializer.extend(more)

    def _tensor(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        array = carried_array(self.model.array(tensor), tensor.data_type)
        return onnx.numpy_helper.from_array(array, tensor.name)

    def _outputs(self, graph: onnx.GraphProto, values: Values, edge: set[str], main: bool) -> None:
        for value in graph.output:
            elem = tensor_elem(value)
            if values.kept(value.name) and main:
                continue
            if value.name in edge:
                values.emit.cast(values.carried(value.name), T.UINT8, out=value.name)
                self.changed = True
                continue
            holder = values.carried(value.name)
            if holder != value.name:  # an inner graph gives what an outer one has, or what was kept
                value.name = holder
            kind = value.type.WhichOneof("value")
            if retyped(value.type):
                self.changed = True
                if main and kind == "tensor_type" and all(io.name != value.name for io in self.io_types):
                    self._io(value.name, elem)

    # the nodes

    def _node(self, node: onnx.NodeProto, values: Values, edge: set[str]) -> None:
        emit = values.emit
        start = len(emit.nodes)
        emit.base = next((name for name in node.output if name), node.name or node.op_type)
        what = self._standard(node, values, edge) if not normalise_domain(node.domain) else None
        if what is None:  # the node stays; its subgraphs may change
            what = self._stays(node, values)
        if what:
            self.changed = True
            self._record(node, what, emit.nodes[start:], values.elem(node.input[0]) if node.input else 0)

    def _stays(self, node: onnx.NodeProto, values: Values) -> str:
        """The node on carriers, without arithmetic of ours; what changed about it."""
        own = not normalise_domain(node.domain) and node.op_type in IN_ONNX_TYPES
        moved = node.op_type in _MOVES and any(map(values.kept, node.input)) and _only_kept(node, values)
        kept = own or moved
        held = values.native if own else values.carried
        inputs = list(node.input) if moved else [held(name) for name in node.input]
        elems = {name: values.elem(name) for name in (*node.input, *node.output) if name}
        changed = inputs != list(node.input)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        retyped_attributes = False if own else self._attributes(copy)
        values.emit.nodes.append(copy)
        for inner in subgraphs(copy):
            self.graph(inner, values)
        carries = []
        for name in node.output:
            elem = elems.get(name, 0)
            if elem not in CARRIERS:
                continue
            if kept:
                values.keep(name, elem)
            else:
                values.carry(name, elem)
                carries.append(elem)
        self._edge_outputs(copy, values)
        carries += [elems[name] for name in node.input if name and elems[name] in CARRIERS and not kept]
        if carries or changed or retyped_attributes:
            return _what(carries)
        return ""

    def _edge_outputs(self, node: onnx.NodeProto, values: Values) -> None:
        """A uint8 output of the whole graph is made under another name: a Cast gives it its own."""
        for position, name in enumerate(node.output):
            if name in self._uint8_outputs(values) and not values.kept(name):
                node.output[position] = values.emit.fresh("int32")
                values.carry(name, T.UINT8, node.output[position])

    def _uint8_outputs(self, values: Values) -> frozenset[str]:
        return self._bytes_out if values.outer is None else frozenset()

    def _attributes(self, node: onnx.NodeProto) -> bool:
        """Element types and tensors among the attributes, in their carriers; whether there were any."""
        changed = False
        for attribute in node.attribute:
            if attribute.name in TYPE_ATTRIBUTES and attribute.i in CARRIERS:
                attribute.i = carrier(attribute.i)
                changed = True
            elif attribute.HasField("t") and attribute.t.data_type in CARRIERS:
                attribute.t.CopyFrom(self._tensor(attribute.t))
                changed = True
        return changed

    def _standard(self, node: onnx.NodeProto, values: Values, edge: set[str]) -> str | None:
        """What was done to a node whose operator has to be computed otherwise; None if it stays as it is."""
        if node.op_type in IN_ONNX_TYPES or any(True for _ in subgraphs(node)):
            return None
        if node.op_type in ("Cast", "CastLike"):
            return self._cast(node, values, edge)
        elems = [values.elem(name) for name in node.input if name]
        int8 = T.INT8 in elems and node.op_type in (NOT_IN_INT8)
        integers = [e for e in elems if e in INTEGERS and (e in CARRIERS or (e == T.INT8 and int8))]
        if not integers or node.op_type in _MOVES:
            return None
        elem = values.elem(node.input[0])
        if (
            elem not in integers
        ):  # such as the exponents of a Pow: what comes out is of the first input's type
            if not int8:
                return None
            elem = 0
        emit = values.emit
        inputs = [
            emit.cast(name, T.INT32)
            if name and int8 and values.elem(name) == T.INT8
            else values.carried(name)
            for name in node.input
        ]
        made: list[str]
        if node.op_type in IN_FLOAT:
            inputs = [emit.cast(inputs[0], T.FLOAT), *inputs[1:]]
            made = copied(emit, node, inputs)
            made[0] = emit.cast(made[0], T.INT32 if elem == T.INT8 else carrier(elem))
        else:
            start = len(emit.nodes)
            made = compute(emit, node, inputs, elem)
            for new in emit.nodes[start:]:
                if new.op_type == node.op_type:
                    self._attributes(new)
        for name, value in zip(node.output, made, strict=False):
            if name:
                self._store(name, value, values, int8)
        return _what(integers)

    def _store(self, name: str, value: str, values: Values, int8: bool = False) -> None:
        """`value`, in the carrier, is the node's output `name` from now on."""
        elem = values.elem(name)
        if elem == T.INT8 and int8:
            values.emit.cast(value, T.INT8, out=name)
        elif name in self._uint8_outputs(values):
            values.carry(name, elem, value)
        else:
            last = values.emit.nodes[-1]
            if value in last.output and last.op_type != "Constant":
                last.output[list(last.output).index(value)] = name
            else:
                values.emit("Identity", value, out=name)
            if elem in CARRIERS:
                values.carry(name, elem)

    def _cast(self, node: onnx.NodeProto, values: Values, edge: set[str]) -> str | None:
        attributes = {a.name: a for a in node.attribute}
        source = values.elem(node.input[0])
        target = attributes["to"].i if "to" in attributes else values.elem(node.input[1])
        known = INTEGERS.keys() | FLOATS | CARRIERS.keys() | {T.BOOL}
        if source not in known or target not in known:
            return None
        if (
            node.op_type == "Cast"
            and source == T.UINT8
            and target not in CARRIERS
            and values.kept(node.input[0])
        ):
            values.emit.nodes.append(node)  # TensorRT casts an input at once
            return ""
        if source not in CARRIERS and node.output[0] in edge and node.op_type == "Cast":
            values.emit.nodes.append(node)  # and an output at last
            values.keep(node.output[0], target)
            return ""
        if source not in CARRIERS and target not in CARRIERS:
            like = len(node.input) > 1 and node.input[1]
            if not like or values.elem(like) not in CARRIERS:
                return None
        saturate = bool(attributes["saturate"].i) if "saturate" in attributes else True
        mode = attributes["round_mode"].s.decode() if "round_mode" in attributes else "up"
        value = converted(
            values.emit, values.carried(node.input[0]), source, target, Rounding(saturate, mode)
        )
        if value == values.carried(node.input[0]):
            value = values.emit("Identity", value)
        self._store(node.output[0], value, values)
        return _what([e for e in (source, target) if e in CARRIERS])

    def _record(self, node: onnx.NodeProto, what: str, made: list[onnx.NodeProto], elem: int) -> None:
        name = node.name
        if not name or self._names.nodes[name] > 1:
            name = self._names.node(name or next((n for n in node.output if n), node.op_type))
        for new in made:
            if new.name != name or len(made) > 1:
                new.name = self._names.node(f"{name}/{new.op_type}" if len(made) > 1 else name)
        numerics = [_LOSSES[elem, kind] for kind in (node.op_type,) if (elem, kind) in _LOSSES]
        if not self._told_float64 and "float64" in what:
            self._told_float64 = True
            numerics.append(f"{FLOAT64}; here, and in every other node of that type")
        shown = "::".join(part for part in (normalise_domain(node.domain), node.op_type) if part)
        self.rewrites.append(
            Rewrite(name, shown, NAME, what, numerics=tuple(numerics), made=tuple(n.name for n in made))
        )


_MOVES = frozenset(
    {
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators that only move values: they leave a quantised type as it is."""


def _only_kept(node: onnx.NodeProto, values: Values) -> bool:
    return all(
        values.kept(name) and values.elem(name) in QUANTISED
        for name in node.input
        if name and values.elem(name) in CARRIERS
    )


def _what(elems: list[int]) -> str:
    """As "uint16 in int32"."""
    if not elems:
        return "in carriers of its types"
    counted = Counter(elems)
    return ", ".join(
        f"{dtype_name(e)} in {dtype_name(carrier(e)) if e in CARRIERS else 'int32'}" for e in counted
    )


def _wanted(graph: onnx.GraphProto) -> set[str]:
    """Values that an operator reads to which the type itself counts, through others that only move them."""
    wanted = {
        name
        for part in all_graphs(graph)
        for node in part.node
        if node.op_type in IN_ONNX_TYPES and not normalise_domain(node.domain)
        for name in node.input
    }
    for node in reversed(graph.node):
        if node.op_type in _MOVES and wanted.intersection(node.output):
            wanted.update(node.input)
    return wanted


_INSIDE = "(a graph inside)"


def _readers(graph: onnx.GraphProto) -> dict[str, set[str]]:
    """By value name, the operators that read it in this graph and those inside."""
    readers: dict[str, set[str]] = {}
    for part in all_graphs(graph):
        for node in part.node:
            for name in node.input:
                if name:
                    readers.setdefault(name, set()).add(node.op_type)
                    if part is not graph:
                        readers[name].add(_INSIDE)
        if part is not graph:
            for value in part.output:
                readers.setdefault(value.name, set()).add(_INSIDE)
    return readers


__all__ = ["Carried", "carry_types"]

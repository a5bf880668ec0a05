"""Writes one node on legal types: unchanged, with extra arithmetic, or as a Cast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.types.casts import Rounding, converted
from trtsmith.converter.rewrite.types.ledger import Ledger, what_changed
from trtsmith.converter.rewrite.types.legal_types import (
    ILLEGAL_TYPES,
    INTEGERS,
    QUANTIZED,
    legal_type,
)
from trtsmith.converter.rewrite.types.legal_values import LegalValues
from trtsmith.converter.rewrite.types.operators import (
    IN_FLOAT,
    IN_ONNX_TYPES,
    MOVES,
    NOT_IN_INT8,
    QUANTIZING_DOMAINS,
    TYPE_ATTRIBUTES,
    compute,
)
from trtsmith.importers.builder import Value
from trtsmith.importers.dtypes import FLOATS, NUMBERS

_FLOATS = frozenset(NUMBERS[name] for name in FLOATS)


@dataclass(frozen=True)
class NodeLegaliser:
    """Writes the nodes of a model's graphs on values in legal types.

    bytes_out: uint8 outputs of the whole graph. tensor: a tensor in its legal type. graph: does a subgraph.
    """

    ledger: Ledger
    bytes_out: frozenset[str]
    tensor: Callable[[onnx.TensorProto], onnx.TensorProto]
    graph: Callable[[Scope, LegalValues], None]

    def node(self, node: Node, values: LegalValues, edge: set[str]) -> None:
        nodes = values.builder.nodes
        start = len(nodes)
        label, first = node.label, node.inputs[0] if node.inputs else ""
        values.base = next((name for name in node.outputs if name), label)
        what = self._standard(node, values, edge) if not node.domain else None
        if what is None:  # the node stays; its subgraphs may change
            what = self._stays(node, values)
        if what:
            self.ledger.changed = True
            self.ledger.record(node, label, what, nodes[start:], values.elem(first))

    def _stays(self, node: Node, values: LegalValues) -> str:
        """The node on legal types, without arithmetic of ours; what changed about it."""
        own = node.domain in QUANTIZING_DOMAINS and node.op_type in IN_ONNX_TYPES
        moved = node.op_type in MOVES and any(map(values.kept, node.inputs)) and _only_kept(node, values)
        kept = own or moved
        held = values.native if own else values.legal
        before, made = node.inputs, node.outputs
        inputs = before if moved else tuple(held(name) for name in before)
        elems = {name: values.elem(name) for name in (*before, *made) if name}
        if inputs != before:
            node.scope.rewire(node, inputs=inputs)
        retyped_attributes = not kept and self._attributes_of(node)
        values.builder.nodes.append(node)
        for inner in node.scopes:
            self.graph(inner, values)
        legalised = []
        for name in made:
            elem = elems.get(name, 0)
            if elem not in ILLEGAL_TYPES:
                continue
            if kept:
                values.keep(name, elem)
            else:
                values.set_legal(name, elem)
                legalised.append(elem)
        self._edge_outputs(node, values)
        legalised += [elems[name] for name in before if name and elems[name] in ILLEGAL_TYPES and not kept]
        if legalised or inputs != before or retyped_attributes:
            return what_changed(legalised)
        return ""

    def _edge_outputs(self, node: Node, values: LegalValues) -> None:
        """A uint8 output of the whole graph is made under another name: a Cast gives it its own."""
        outputs = list(node.outputs)
        for position, name in enumerate(outputs):
            if name in self._uint8_outputs(values) and not values.kept(name):
                outputs[position] = values.builder.fresh("int32").name
                values.set_legal(name, T.UINT8, outputs[position])
        if tuple(outputs) != node.outputs:
            node.scope.rewire(node, outputs=outputs)

    def _uint8_outputs(self, values: LegalValues) -> frozenset[str]:
        return self.bytes_out if values.outer is None else frozenset()

    def _attributes_of(self, node: Node) -> bool:
        """The same of a node of the graph."""
        if not any(_has_illegal_type(attribute) for attribute in node.proto.attribute):
            return False
        node.scope.whole.stale[node] = None
        return self._attributes(node.edit())

    def _attributes(self, node: onnx.NodeProto) -> bool:
        """Element types and tensors among the attributes, in their legal types; whether there were any."""
        changed = False
        for attribute in node.attribute:
            if attribute.name in TYPE_ATTRIBUTES and attribute.i in ILLEGAL_TYPES:
                attribute.i = legal_type(attribute.i)
                changed = True
            elif attribute.HasField("t") and attribute.t.data_type in ILLEGAL_TYPES:
                attribute.t.CopyFrom(self.tensor(attribute.t))
                changed = True
        return changed

    def _standard(self, node: Node, values: LegalValues, edge: set[str]) -> str | None:
        """What was done to a node whose operator has to be computed otherwise; None if it stays as it is."""
        if node.op_type in IN_ONNX_TYPES or node.scopes:
            return None
        if node.op_type == "Constant":
            return self._constant(node, values)
        if node.op_type in ("Cast", "CastLike"):
            return self._cast(node, values, edge)
        elems = [values.elem(name) for name in node.inputs if name]
        int8 = T.INT8 in elems and node.op_type in (NOT_IN_INT8)
        integers = [e for e in elems if e in INTEGERS and (e in ILLEGAL_TYPES or (e == T.INT8 and int8))]
        if not integers or node.op_type in MOVES:
            return None
        elem = values.elem(node.inputs[0])
        if elem not in integers:  # a Pow's exponents: what comes out is of the first input's type
            if not int8:
                return None
            elem = 0
        g = values.builder
        inputs = [
            g.Cast(name, to="int32")
            if name and int8 and values.elem(name) == T.INT8
            else Value(g, values.legal(name))
            for name in node.inputs
        ]
        if node.op_type in IN_FLOAT:
            made = g.copy(node.proto, [g.Cast(inputs[0], to="float32"), *inputs[1:]])
            made[0] = g.Cast(made[0], to=T.INT32 if elem == T.INT8 else legal_type(elem))
        else:
            start = len(g.nodes)
            made = compute(node.proto, inputs, elem)
            for new in g.nodes[start:]:
                if isinstance(new, onnx.NodeProto) and new.op_type == node.op_type:
                    self._attributes(new)
        for name, value in zip(node.outputs, made, strict=False):
            if name:
                self._store(name, value.name, values, int8)
        return what_changed(integers)

    def _constant(self, node: Node, values: LegalValues) -> str | None:
        """A constant that a DequantizeLinear wants keeps its type; others get one in its legal type."""
        name = node.outputs[0]
        elem = values.elem(name)
        if elem not in ILLEGAL_TYPES or not values.wanted(name):
            return None
        values.builder.nodes.append(node)
        values.keep(name, elem)
        if values.wanted_legal(name):
            (more,) = values.builder.copy(node.proto, ())
            self._attributes(values.builder.nodes[-1])
            values.set_legal(name, elem, more.name)
        return ""

    def _store(self, name: str, value: str, values: LegalValues, int8: bool = False) -> None:
        """`value`, in the legal type, is the node's output `name` from now on."""
        elem = values.elem(name)
        if elem == T.INT8 and int8:
            values.give(name, "Cast", value, to=T.INT8)
        elif name in self._uint8_outputs(values):
            values.set_legal(name, elem, value)
        else:
            last = values.builder.nodes[-1]
            if isinstance(last, onnx.NodeProto) and value in last.output and last.op_type != "Constant":
                last.output[list(last.output).index(value)] = name
            else:
                values.give(name, "Identity", value)
            if elem in ILLEGAL_TYPES:
                values.set_legal(name, elem)

    def _cast(self, node: Node, values: LegalValues, edge: set[str]) -> str | None:
        attributes = {a.name: a for a in node.proto.attribute}
        source = values.elem(node.inputs[0])
        target = attributes["to"].i if "to" in attributes else values.elem(node.inputs[1])
        known = INTEGERS.keys() | _FLOATS | ILLEGAL_TYPES.keys() | {T.BOOL}
        if source not in known or target not in known:
            return None
        if (
            node.op_type == "Cast"
            and source == T.UINT8
            and target not in ILLEGAL_TYPES
            and values.kept(node.inputs[0])
        ):
            values.builder.nodes.append(node)  # TensorRT casts an input at once
            return ""
        if source not in ILLEGAL_TYPES and node.outputs[0] in edge and node.op_type == "Cast":
            values.builder.nodes.append(node)  # and an output at last
            values.keep(node.outputs[0], target)
            return ""
        if source not in ILLEGAL_TYPES and target not in ILLEGAL_TYPES:
            like = len(node.inputs) > 1 and node.inputs[1]
            if not like or values.elem(like) not in ILLEGAL_TYPES:
                return None
        saturate = bool(attributes["saturate"].i) if "saturate" in attributes else True
        mode = attributes["round_mode"].s.decode() if "round_mode" in attributes else "up"
        given = Value(values.builder, values.legal(node.inputs[0]))
        value = converted(given, source, target, Rounding(saturate, mode))
        if value is given:
            value = values.builder.Identity(given)
        self._store(node.outputs[0], value.name, values)
        return what_changed([e for e in (source, target) if e in ILLEGAL_TYPES])


def _only_kept(node: Node, values: LegalValues) -> bool:
    return all(
        values.kept(name) and values.elem(name) in QUANTIZED
        for name in node.inputs
        if name and values.elem(name) in ILLEGAL_TYPES
    )


def _has_illegal_type(attribute: onnx.AttributeProto) -> bool:
    """Whether an attribute holds an element type that is not legal, or a tensor of one."""
    if attribute.name in TYPE_ATTRIBUTES:
        return attribute.i in ILLEGAL_TYPES
    return attribute.HasField("t") and attribute.t.data_type in ILLEGAL_TYPES

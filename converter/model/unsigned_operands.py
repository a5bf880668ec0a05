"""Rewrites 8-bit products to the form that onnxruntime computes exactly on every CPU.

Its kernel of uint8 by int8 adds products in pairs, in 16 bits, on x86 without VNNI: sums saturate, at every level of
optimisation. Seen with onnxruntime 1.31 on an AMD EPYC (AVX2): 93 of the 96 integers of a MatMulInteger of 6x64 by 64x16
over the full ranges were wrong, the worst by 303,772. Its kernels of the other three pairs of types are exact. So an int8
operand that meets a uint8 one becomes uint8 here: 128 is added to it and to its zero point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import count

import onnx
from onnx import TensorProto, helper, inliner

from trtsmith.converter.model.check import iter_graphs
from trtsmith.importers.registry import normalise_domain

Types = MutableMapping[str, int]
"""ONNX element types by value, as far as they are known."""

_INT8, _UINT8, _INT32 = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
_OFFSET = 128


@dataclass(frozen=True)
class _Operands:
    """Inputs of a product. left: None if the kernel quantizes it, to uint8. right: other operands with their zero points."""

    left: int | None
    right: tuple[tuple[int, int], ...]


_FLOAT_PRODUCT = ("com.microsoft", "MatMulNBits")

_PRODUCTS: Mapping[tuple[str, str], _Operands] = {
    ("", "MatMulInteger"): _Operands(0, ((1, 3),)),
    ("", "ConvInteger"): _Operands(1, ((0, 2),)),  # its kernel multiplies filters by windows, in this order
    ("", "QLinearMatMul"): _Operands(0, ((3, 5),)),
    ("", "QLinearConv"): _Operands(0, ((3, 5),)),
    ("com.microsoft", "QLinearConv"): _Operands(0, ((3, 5),)),
    ("com.microsoft", "MatMulIntegerToFloat"): _Operands(0, ((1, 5),)),
    ("com.microsoft", "DynamicQuantizeMatMul"): _Operands(None, ((1, 3),)),
    ("com.microsoft", "DynamicQuantizeLSTM"): _Operands(None, ((1, 9), (2, 11))),
    ("com.microsoft", "QGemm"): _Operands(0, ((3, 5),)),
    ("com.microsoft", "QAttention"): _Operands(0, ((1, 7),)),
    _FLOAT_PRODUCT: _Operands(None, ()),
}

_SAME_TYPE_AS = {("", "QuantizeLinear"): 2, ("com.microsoft", "QuantizeLinear"): 2, ("", "Where"): 1}
"""The input whose type the first output has; the first input of operators that are not here."""


def with_unsigned_operands(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with uint8 by int8 products rewritten where types are known. Edits in place where possible.

    Functions that hold products are inlined: the types of their inputs are those of each call. A MatMulNBits computes in
    float32: by its accuracy_level onnxruntime may round the other operand to 8 bits, in kernels that differ by CPU.
    """
    if not any(_kind(node) in _PRODUCTS for nodes in _node_lists(proto) for node in nodes):
        return proto
    if any(_kind(node) in _PRODUCTS for function in proto.functions for node in function.node):
        proto = inliner.inline_local_functions(proto)
    _graph(proto.graph, {}, (f"unsigned operand {number}" for number in count()))
    return proto


def _graph(graph: onnx.GraphProto, outer: Types, made: Iterator[str]) -> None:
    types = dict(outer)
    values = (*graph.input, *graph.output, *graph.value_info)
    types |= {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    changed: list[onnx.NodeProto] = []
    unsigned: dict[str, str] = {}
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _graph(body, types, made)
        changed += _new_inputs(node, types, unsigned, made)
        changed.append(node)
        _note_type(node, types)
    if unsigned:
        new = onnx.GraphProto(node=changed)
        graph.ClearField("node")
        graph.node.extend(new.node)


def _new_inputs(
    node: onnx.NodeProto, types: Types, unsigned: dict[str, str], made: Iterator[str]
) -> Iterator[onnx.NodeProto]:
    product = _PRODUCTS.get(_kind(node))
    if _kind(node) == _FLOAT_PRODUCT:
        kept = [attribute for attribute in node.attribute if attribute.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend(kept)
    if product is None or (product.left is not None and _type_of(node, product.left, types) != _UINT8):
        return
    for operand, zero in product.right:
        if _INT8 not in (_type_of(node, operand, types), _type_of(node, zero, types)):
            continue
        node.input.extend([""] * (zero + 1 - len(node.input)))
        for position in (operand, zero):
            name = node.input[position]
            if name not in unsigned:
                unsigned[name] = next(made)
                yield from _plus_offset(name, unsigned[name])
            node.input[position] = unsigned[name]


def _plus_offset(name: str, result: str) -> Iterator[onnx.NodeProto]:
    """Nodes that add the offset to a value and make it uint8. The offset replaces a missing zero point ("")."""
    kind, data = (_INT32, [_OFFSET]) if name else (_UINT8, [_OFFSET])
    offset = helper.make_tensor(f"{result}, offset", kind, (), data)
    if not name:
        yield helper.make_node("Constant", [], [result], value=offset)
        return
    steps = [f"{result}, {step}" for step in ("offset", "wide", "sum")]
    yield helper.make_node("Constant", [], steps[:1], value=offset)
    yield helper.make_node("Cast", [name], steps[1:2], to=_INT32)
    yield helper.make_node("Add", [steps[1], steps[0]], steps[2:])
    yield helper.make_node("Cast", steps[2:], [result], to=_UINT8)


def _note_type(node: onnx.NodeProto, types: Types) -> None:
    """Notes the type of the node's first output, from an input or an attribute."""
    if not node.output or types.get(node.output[0]):
        return
    attributes = {attribute.name: attribute for attribute in node.attribute}
    found: int = _UINT8
    if node.op_type == "DynamicQuantizeLinear":
        pass
    elif node.op_type == "Cast" and "to" in attributes:
        found = attributes["to"].i
    elif node.op_type == "Constant" and "value" in attributes:
        found = attributes["value"].t.data_type
    elif node.op_type == "QuantizeLinear" and len(node.input) < 3:
        found = attributes["output_dtype"].i if "output_dtype" in attributes else _UINT8
    else:
        found = _type_of(node, _SAME_TYPE_AS.get(_kind(node), 0), types)
    types[node.output[0]] = found


def _type_of(node: onnx.NodeProto, position: int, types: Mapping[str, int]) -> int:
    return types.get(node.input[position], 0) if position < len(node.input) else 0


def _kind(node: onnx.NodeProto) -> tuple[str, str]:
    return normalise_domain(node.domain), node.op_type


def _node_lists(proto: onnx.ModelProto) -> Iterator[Iterable[onnx.NodeProto]]:
    yield from (graph.node for graph in iter_graphs(proto.graph))
    yield from (function.node for function in proto.functions)

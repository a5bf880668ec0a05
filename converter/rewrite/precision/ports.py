"""Finds a node's float32 inputs and outputs that may have another type, from ONNX's schemas and the definitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.node import Node
from trtsmith.converter.rewrite.precision.policy import KEPT_PORTS
from trtsmith.importers.dtypes import dtype_name, type_string
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES
from trtsmith.importers.registry import by_name


@dataclass(frozen=True)
class Ports:
    """Positions of a node's float32 inputs and outputs whose type may change."""

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)


def reducible_ports(node: Node, elem: int) -> Ports:
    """Finds ports whose type variable may be `elem` in some opset: TensorRT ignores the opset.

    None for operators that neither ONNX nor a definition of ours describes.
    """
    kinds = _kinds(node, elem)
    if kinds is None:
        return Ports()
    inputs, outputs = kinds
    return Ports(tuple(_floats(node, node.inputs, inputs)), tuple(_floats(node, node.outputs, outputs)))


def described(node: Node) -> bool:
    """Tells whether an ONNX schema or a definition gives the node's types."""
    return _kinds(node, T.FLOAT) is not None


def _kinds(node: Node, elem: int) -> tuple[tuple[bool, ...], tuple[bool, ...]] | None:
    if node.domain == PLUGIN_NAMESPACE:
        op = by_name().get(node.op_type)
        if op is None:
            return None
        name = dtype_name(elem)
        return (
            tuple(name in TYPE_VARIABLES[p.type] and p.type == "T" for p in op.inputs),
            tuple(name in TYPE_VARIABLES[p.type] and p.type == "T" for p in op.outputs),
        )
    if node.domain:
        return None
    return _schema_kinds(node.op_type, node.scope.whole.opset(""), elem)


@cache
def _schema_kinds(op_type: str, opset: int, elem: int) -> tuple[tuple[bool, ...], tuple[bool, ...]] | None:
    try:
        schema = onnx.defs.get_schema(op_type, opset)
        newest = onnx.defs.get_schema(op_type)
    except onnx.defs.SchemaError:
        return None
    wanted = type_string(elem)
    since, kept = KEPT_PORTS.get(op_type, (0, frozenset[int]()))
    kept = kept if opset >= since else frozenset()

    def free(ports: Any, later: Any, skipped: frozenset[int]) -> tuple[bool, ...]:
        return tuple(
            not port.type_str.startswith("tensor(")
            and wanted in {*port.types, *later[min(index, len(later) - 1)].types}
            and index not in skipped
            for index, port in enumerate(ports)
        )

    return (
        free(schema.inputs, newest.inputs, kept),
        free(schema.outputs, newest.outputs, frozenset()),
    )


def _floats(node: Node, names: Iterable[str], free: tuple[bool, ...]) -> Iterable[int]:
    for index, name in enumerate(names):
        if name and free and free[min(index, len(free) - 1)] and node.scope.elem_type(name) == T.FLOAT:
            yield index

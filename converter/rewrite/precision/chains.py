"""Finds values that must not be rounded because of their use: indices, sampling positions, angles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.precision.policy import ANGLE, CHAINS_GO_THROUGH, GEOMETRY, HEAVY, POSITIONS
from trtsmith.converter.rewrite.precision.ports import Ports
from trtsmith.converter.rewrite.precision.sums import products
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name

INDEX = "its result becomes an index"
POSITION = "its result becomes a position to read at"

_INTEGERS = frozenset(
    {T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64, T.INT4, T.UINT4}
)


def sums_few(node: Node) -> bool:
    """Whether the node multiplies small matrices, as those of cameras and rotations are."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain:
        return False
    count = products(node)
    return count is not None and count <= GEOMETRY


def chains(order: Iterable[Node], nodes: Mapping[Node, Ports]) -> dict[Node, str]:
    """Nodes that compute indices, positions or angles, and which: each node is looked at once for all chains.

    order: all nodes. nodes: those that have ports of a changeable type.
    """
    marked: dict[Node, str] = {}
    for start, reason in _ends(order):
        queue = [start]
        while queue:
            scope, name = queue.pop()
            holder = scope.holder(name)
            node = holder.producers.get(name) if holder is not None else None
            if node is None or node in marked or node not in nodes or not _goes_through(node):
                continue
            marked[node] = reason
            queue.extend((node.scope, node.inputs[i]) for i in nodes[node].inputs)
    return marked


def _goes_through(node: Node) -> bool:
    return (
        not node.domain
        and node.op_type in CHAINS_GO_THROUGH
        and (node.op_type not in HEAVY or sums_few(node))
    )


def _ends(nodes: Iterable[Node]) -> Iterator[tuple[tuple[Scope, str], str]]:
    """The values at which chains end."""
    for node in nodes:
        for index, reason in _sensitive_inputs(node):
            if index < len(node.inputs) and node.inputs[index]:
                yield (node.scope, node.inputs[index]), reason


def _sensitive_inputs(node: Node) -> Iterator[tuple[int, str]]:
    if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
        for index, port in enumerate(by_name()[node.op_type].inputs):
            if port.positions:
                yield index, POSITION
    elif node.domain:
        return
    elif node.op_type == "Cast" and _target(node.proto) in _INTEGERS:
        yield 0, INDEX
    elif node.op_type in ("Sin", "Cos"):
        yield 0, ANGLE
    elif node.op_type == "Range":
        yield from ((index, INDEX) for index in range(3))
    else:
        yield from ((index, POSITION) for index in POSITIONS.get(node.op_type, ()))


def reads_positions(node: Node) -> bool:
    """Whether the node reads at positions that it is given in the dtype that it computes in."""
    if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
        op = by_name()[node.op_type]
        return any(port.positions and port.type == op.key for port in op.inputs)
    return any(reason == POSITION for _, reason in _sensitive_inputs(node))


def _target(proto: onnx.NodeProto) -> int:
    return next((int(a.i) for a in proto.attribute if a.name == "to"), 0)

"""Gates of a reduced network (converter/rewrite/rules/pointwise/gate_shapes.py) are computed in float32 between Casts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.rules.pointwise.gate_shapes import is_gate


def gates(reduced: Mapping[Node, bool]) -> set[str]:
    """Names of the reduced nodes that scale the channels of an image by values of one pixel."""
    return {n.name for n, small in reduced.items() if small and _is_gate(n)}


def _is_gate(node: Node) -> bool:
    if node.domain or node.op_type != "Mul" or any(node.scope.is_constant(name) for name in node.inputs):
        return False
    return is_gate([node.scope.dims(name) for name in node.inputs])


def put_between_casts(graph: Graph, chosen: Collection[str], fmt: Format) -> int:
    """Changes the graph in place, and counts the Casts. chosen: names of nodes whose values are all in `fmt`."""
    casts = 0
    for scope in list(graph.scopes()) if chosen else ():
        made = [new for node in scope.nodes for new in _widened(node, chosen, fmt, graph.names)]
        casts += len(made) - len(scope.nodes)
        scope.rebuild(made)
    return casts


def _widened(
    node: Node, chosen: Collection[str], fmt: Format, names: FreshNames
) -> Iterable[Node | onnx.NodeProto]:
    """The node between Casts of its own, so that each is a pattern by itself."""
    if node.name not in chosen:
        yield node
        return
    inputs = [names.value(f"{name}/wide") for name in node.inputs]
    for name, wide in zip(node.inputs, inputs, strict=True):
        yield _cast(name, wide, T.FLOAT, names)
    (output,) = node.outputs
    wide = names.value(f"{output}/wide")
    node.scope.rewire(node, inputs, [wide])
    yield node
    yield _cast(wide, output, fmt.elem, names)


def _cast(source: str, target: str, to: int, names: FreshNames) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], names.node(f"{target}/Cast"), to=to)

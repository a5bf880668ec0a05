"""Gates of a reduced network (converter/rewrite/rules/pointwise/gate_shapes.py) are computed in float32 between Casts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.scopes import Node, all_graphs
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.rules.pointwise.gate_shapes import is_gate


def gates(reduced: Mapping[Node, bool]) -> set[str]:
    """Names of the reduced nodes that scale the channels of an image by values of one pixel."""
    return {n.proto.name for n, small in reduced.items() if small and _is_gate(n)}


def _is_gate(node: Node) -> bool:
    if node.domain or node.op_type != "Mul" or any(node.scope.is_constant(name) for name in node.inputs):
        return False
    return is_gate([node.scope.dims(name) for name in node.inputs])


def put_between_casts(proto: onnx.ModelProto, chosen: Collection[str], fmt: Format, names: FreshNames) -> int:
    """Changes the graphs in place, and counts the Casts. chosen: names of nodes whose values are all in `fmt`."""
    casts = 0
    for graph in all_graphs(proto.graph) if chosen else ():
        made = [new for node in graph.node for new in _widened(node, chosen, fmt, names)]
        casts += len(made) - len(graph.node)
        del graph.node[:]
        graph.node.extend(made)
    return casts


def _widened(
    node: onnx.NodeProto, chosen: Collection[str], fmt: Format, names: FreshNames
) -> Iterable[onnx.NodeProto]:
    """The node between Casts of its own, so that each is a pattern by itself."""
    if node.name not in chosen:
        yield node
        return
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for index, name in enumerate(node.input):
        wide.input[index] = names.value(f"{name}/wide")
        yield _cast(name, wide.input[index], T.FLOAT, names)
    wide.output[0] = names.value(f"{node.output[0]}/wide")
    yield wide
    yield _cast(wide.output[0], node.output[0], fmt.elem, names)


def _cast(source: str, target: str, to: int, names: FreshNames) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], names.node(f"{target}/Cast"), to=to)

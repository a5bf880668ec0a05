"""Folds large masks and positions that small constants generate.

Exporters write them as operators even for images of a fixed size: DETR's mask of pixels, from ones, and the sines of its
positions. A mask that is zero everywhere is not added then. fold.py folds what is small, for rules to read.
"""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.fold import LIMIT, NOT_FOLDED, computed_values

NAME = "generated-constants"

MOST_KEPT = 2**20
"""Elements of a value that becomes a weight."""

MOST_COMPUTED = 2**25
"""Elements of all values that are computed to find out; less than a second."""

_NEUTRAL = {"Add": (0, (0, 1)), "Sub": (0, (1,)), "Mul": (1, (0, 1)), "Div": (1, (1,)), "And": (1, (0, 1))}
"""By operator, the number that changes nothing, and the inputs where it does not; of And, true."""


def fold_generated(graph: Graph) -> tuple[Rewrite, ...]:
    """Puts constants in the places of such values of the main graph; a record for each. Types are inferred.

    What is small has been folded before.
    """
    scope = graph.root
    nodes = _generating(scope)
    ends = [name for name in nodes if _elements(scope, name) > LIMIT and _read_beside(graph, name, nodes)]
    values = computed_values(scope, [node.proto for node in nodes.values()], ends) if ends else None
    records = []
    gone: list[Node] = []
    for name, array in (values or {}).items():
        readers = [*graph.readers_of(name)]
        left = [_left_as_it_is(node, name, array) for node in readers]
        if all(left):
            for node, other in zip(readers, left, strict=True):
                _read_instead(graph, node.outputs[0], other)
            gone += readers
            what = "it changes nothing where it is read"
        elif array.size <= MOST_KEPT:
            scope.set_tensor(graph.adopt_tensor(numpy_helper.from_array(array, name), name))
            what = "computed"
        else:
            continue
        gone.append(nodes[name])
        records.append(
            Rewrite(graph.unique_name(nodes[name]), nodes[name].op_type, NAME, f"a constant: {what}")
        )
    for node in gone:
        scope.leave(node)
    scope.replace(dict.fromkeys(gone, ()))
    graph.remove_dead([name for node in gone for name in node.inputs], scope)
    graph.infer()
    return tuple(records)


def _generating(scope: Scope) -> dict[str, Node]:
    """By result, in order, the nodes that compute from small constants alone."""
    nodes: dict[str, Node] = {}
    left = MOST_COMPUTED
    for node in scope.nodes:
        if (
            node.domain
            or node.scopes
            or node.op_type in NOT_FOLDED
            or len(node.outputs) != 1
            or not node.inputs
        ):
            continue
        if not all(name in nodes or _is_small(scope, name) for name in node.inputs if name):
            continue
        size = _elements(scope, node.outputs[0])
        if 0 <= size <= left and node.outputs[0] not in scope.outputs:
            left -= size
            nodes[node.outputs[0]] = node
    return nodes


def _is_small(scope: Scope, name: str) -> bool:
    tensor = scope.tensors.get(name)
    known = scope.is_constant(name) if tensor is None else tensor.data_type != TensorProto.STRING
    size = _elements(scope, name) if tensor is None else prod(tensor.dims)
    return known and 0 <= size <= LIMIT


def _elements(scope: Scope, name: str) -> int:
    """-1: not known."""
    dims, kind = scope.dims(name), scope.elem_type(name)
    fixed = [dim for dim in dims or () if isinstance(dim, int)]
    known = dims is not None and len(fixed) == len(dims) and kind not in (0, TensorProto.STRING)
    return prod(fixed) if known else -1


def _read_beside(graph: Graph, name: str, nodes: dict[str, Node]) -> bool:
    return any(nodes.get(node.outputs[0]) is not node for node in graph.readers_of(name))


def _left_as_it_is(node: Node, name: str, array: np.ndarray) -> str:
    """The other input, if that is what the node makes with this one; "" if not."""
    scope, (result, *_) = node.scope, node.outputs
    number, places = _NEUTRAL.get(node.op_type, (0, ()))
    if node.domain or scope.outer is not None or result in scope.outputs or not array.size:
        return ""
    place = node.inputs.index(name)
    other = node.inputs[1 - place] if place in places else ""
    same = other and scope.dims(other) == scope.dims(result) is not None
    return other if same and bool((array == number).all()) else ""


def _read_instead(graph: Graph, name: str, other: str) -> None:
    for reader in [*graph.readers_of(name)]:
        reader.scope.rewire(reader, inputs=[other if n == name else n for n in reader.inputs])

"""Folds large values that follow from constants alone: masks, positions, a layer whose inputs are all weights.

Exporters write them as operators even for images of a fixed size: DETR's mask of pixels, from ones, and the sines of its
positions. A mask that is zero everywhere is not added then. The first self-attention of DETR's decoder is that of queries
that are weights. fold.py folds what is small, for rules to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import TensorProto

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.operator_groups import BROADCASTING, op_types
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.constants.quantized_types import QUANTIZED
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.fold import LIMIT, NOT_FOLDED, computed_values

NAME = "generated-constants"

MOST_KEPT = 2**20
"""Elements of a value that becomes a weight."""

MOST_COMPUTED = 2**32
"""Operations that computing all values may take: elements, and multiplications. onnxruntime takes about a second."""

MOST_HELD = 2**27
"""Elements of all values that are read, made on the way, or found: 1 GiB at most."""

_PRODUCTS = ("Gemm", "MatMul")

_SUMS = frozenset(
    op_types(
        "AveragePool Conv ConvInteger ConvTranspose DeformConv Einsum GRU LSTM LpPool MatMulInteger MaxPool RNN"
    )
)
"""Other operators of which an element may be made of many: of all of an input, at most."""

_UNKNOWN = {0, TensorProto.STRING, *QUANTIZED}
"""Types of which nothing is computed here: quantized constants are fold_moves' business."""

_NEUTRAL = {"Add": (0, (0, 1)), "Sub": (0, (1,)), "Mul": (1, (0, 1)), "Div": (1, (1,)), "And": (1, (0, 1))}
"""By operator, the number that changes nothing, and the inputs where it does not; of And, true."""


@dataclass(frozen=True)
class _Generated:
    """A node whose result follows from constants alone.

    small: whether no weight is part of it. made: whether a product, copies or a Gather are.
    """

    node: Node
    small: bool
    made: bool

    @property
    def worth(self) -> bool:
        """Not where weights are only moved and scaled: TensorRT does that itself."""
        return self.small or self.made


def fold_generated(graph: Graph) -> tuple[Rewrite, ...]:
    """Replaces such values of the main graph by constants, with a record for each. Needs inferred types and folded
    constants.
    """
    scope = graph.root
    found = dict(_generated(scope))
    ends = [name for name, it in found.items() if it.worth and _is_end(graph, name, found)]
    ends = _affordable(scope, found, ends)
    needed = _needed(found, ends)
    values = computed_values(scope, [found[name].node.proto for name in needed], ends) if ends else None
    records = []
    gone: dict[Node, tuple[Node, ...]] = {}
    for name, array in (values or {}).items():
        maker, readers = found[name].node, [*dict.fromkeys(graph.readers_of(name))]
        if all(_is_broadcast(node, name) for node in readers):
            array = _without_copies(array)
        if all(_is_neutral(graph, node, name, array) for node in readers):
            for node in readers:
                _read_instead(graph, node.outputs[0], node.inputs[1 - node.inputs.index(name)])
            gone |= dict.fromkeys(readers, ())
            what = "it changes nothing where it is read"
        elif array.size <= MOST_KEPT:
            scope.set_tensor(graph.tensor(array, name))
            what = "computed"
        else:
            continue
        gone[maker] = ()
        records.append(Rewrite(graph.unique_name(maker), maker.op_type, NAME, f"a constant: {what}"))
    for node in gone:
        scope.leave(node)
    scope.replace(gone)
    graph.remove_dead([name for node in gone for name in node.inputs], scope)
    graph.infer()
    return tuple(records)


def _generated(scope: Scope) -> Iterator[tuple[str, _Generated]]:
    """By their results, in order."""
    found: dict[str, _Generated] = {}
    for node in scope.nodes:
        apart = node.domain or node.scopes or node.op_type in NOT_FOLDED
        if apart or len(node.outputs) != 1 or not node.inputs:
            continue
        before = [found[name] for name in node.inputs if name in found]
        weights = [name for name in node.inputs if name and name not in found]
        known = all(scope.is_constant(name) for name in weights) and _elements(scope, node.outputs[0]) >= 0
        if known and node.outputs[0] not in scope.outputs:
            small = all(it.small for it in before) and not any(_is_weight(scope, name) for name in weights)
            made = node.op_type in (*_PRODUCTS, "Expand", "Gather", "Tile") or any(it.made for it in before)
            found[node.outputs[0]] = _Generated(node, small, made)
            yield node.outputs[0], found[node.outputs[0]]


def _is_weight(scope: Scope, name: str) -> bool:
    """Whether a constant is large, and no mask or index."""
    small = 0 <= _elements(scope, name) <= LIMIT
    return not small and scope.elem_type(name) not in (TensorProto.BOOL, TensorProto.INT64)


def _elements(scope: Scope, name: str) -> int:
    """The number of elements; -1 if it is unknown, or of a type of which nothing is computed."""
    dims, kind = scope.dims(name), scope.elem_type(name)
    fixed = [dim for dim in dims or () if isinstance(dim, int)]
    known = dims is not None and len(fixed) == len(dims) and kind not in _UNKNOWN
    return prod(fixed) if known else -1


def _is_end(graph: Graph, name: str, found: Mapping[str, _Generated]) -> bool:
    """Whether a constant may replace the value: a large one that is read by a node whose result varies."""
    size, readers = _elements(graph.root, name), [*graph.readers_of(name)]
    may = size <= MOST_KEPT or all(_is_broadcast(node, name) for node in readers)
    varies = any(node.outputs[0] not in found for node in readers)
    return size > LIMIT and may and varies and not _is_returned(graph, name)


def _is_returned(graph: Graph, name: str) -> bool:
    """Whether a graph returns the value."""
    return graph.used[name] > sum(node.inputs.count(name) for node in dict.fromkeys(graph.readers_of(name)))


def _affordable(scope: Scope, found: Mapping[str, _Generated], ends: list[str]) -> list[str]:
    """The values that take neither too long nor too much memory, with all that leads to them."""
    work, room = MOST_COMPUTED, MOST_HELD
    held: set[str] = set()
    for name in _needed(found, ends):
        node = found[name].node
        new = {read for read in (*node.inputs, name) if read and read not in held}
        cost, size = _cost(scope, node), sum(_size(scope, read) for read in new)
        if cost <= work and size <= room and found.keys().isdisjoint(new - {name}):
            work, room = work - cost, room - size
            held |= new
    return [end for end in ends if end in held]


def _needed(found: Mapping[str, _Generated], ends: list[str]) -> list[str]:
    """These values and those from which they are made, in order."""
    needed, queue = set[str](), [*ends]
    while queue:
        name = queue.pop()
        if name in found and name not in needed:
            needed.add(name)
            queue.extend(found[name].node.inputs)
    return [name for name in found if name in needed]


def _size(scope: Scope, name: str) -> int:
    return prod(dim for dim in scope.dims(name) or () if isinstance(dim, int))


def _cost(scope: Scope, node: Node) -> int:
    """At most so many operations."""
    size = _size(scope, node.outputs[0])
    if node.op_type in _PRODUCTS:
        return size * max(
            (dim for dim in scope.dims(node.inputs[0]) or () if isinstance(dim, int)), default=1
        )
    return size * max(_size(scope, name) for name in node.inputs) if node.op_type in _SUMS else size


def _is_broadcast(node: Node, name: str) -> bool:
    """Whether the result keeps its shape if this input has size 1 along axes that only repeat."""
    if node.op_type not in BROADCASTING or node.domain:
        return False
    result = node.scope.dims(node.outputs[0])
    others = (other for other in node.inputs if other != name)
    return result is not None and any(node.scope.dims(other) == result for other in others)


def _without_copies(array: np.ndarray) -> np.ndarray:
    """The array with size 1 along axes that only repeat."""
    for axis in range(array.ndim if array.size else 0):
        first = array.take([0], axis)
        array = first if (array == first).all() else array
    return array


def _is_neutral(graph: Graph, node: Node, name: str, array: np.ndarray) -> bool:
    """Whether the node returns its other input unchanged."""
    number, places = _NEUTRAL.get(node.op_type, (0, ()))
    usual = (
        _is_broadcast(node, name) and node.scope.outer is None and not _is_returned(graph, node.outputs[0])
    )
    return usual and node.inputs.index(name) in places and bool((array == number).all())


def _read_instead(graph: Graph, name: str, other: str) -> None:
    for reader in [*graph.readers_of(name)]:
        reader.scope.rewire(reader, inputs=[other if n == name else n for n in reader.inputs])

"""Folds transposed, sliced and concatenated quantized constants, so that DequantizeLinear reads a constant.

TensorRT takes constants of 8 and 4 bits in front of DequantizeLinear alone. The results are of the constants' type and no
larger, so that nothing is lost by folding weights of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from onnx import helper, numpy_helper

from trtsmith.converter.graph.constant_nodes import evaluated
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.constants.quantized_types import QUANTIZED
from trtsmith.converter.rewrite.engine.records import Rewrite

NAME = "quantized-moves"

_RESHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
MOVES = (*_RESHAPES, "Concat", "Gather", "Slice", "Split", "Transpose")
_BOUNDS = ("starts", "ends", "axes", "steps")
_MOST = 2**29
"""Bytes of all results: they are in the model's own message, which holds no more than 2 GiB."""


def fold_moves(graph: Graph) -> tuple[Rewrite, ...]:
    """Replaces such nodes by constants, with a record for each. Types are inferred before and afterwards."""
    if QUANTIZED.isdisjoint(graph.elem_types()):
        return ()
    folding = _Folding(graph)
    for scope in list(graph.scopes()):
        folding.scope(scope)
    if folding.records:
        graph.infer()
    return tuple(folding.records)


class _Folding:
    def __init__(self, graph: Graph) -> None:
        self.records: list[Rewrite] = []
        self._graph = graph
        self._left = _MOST

    def scope(self, scope: Scope) -> None:
        constants: dict[Node, list[Node]] = {}
        for node in list(scope.nodes):
            arrays = self._computed(node)
            if arrays is None:
                continue
            name = self._graph.unique_name(node)
            what = f"{node.op_type} of a quantized constant, computed"
            self.records.append(Rewrite(name, node.op_type, NAME, what))
            scope.leave(node)
            made = [(name, array) for name, array in zip(node.outputs, arrays, strict=True) if name]
            constants[node] = [one for name, array in made for one in self._put(scope, name, array)]
        if constants:
            scope.replace(constants)
            self._graph.remove_dead([name for node in constants for name in node.inputs if name], scope)

    def _put(self, scope: Scope, name: str, array: np.ndarray) -> list[Node]:
        """An initializer; in graphs inside, a Constant: TensorRT's parser and onnxruntime know it there, too."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(array), name)
        if scope.outer is not None:
            return [scope.enter(helper.make_node("Constant", [], [name], value=tensor))]
        scope.set_tensor(self._graph.adopt_tensor(tensor, name))
        self._graph.make_stale(name)
        return []

    def _computed(self, node: Node) -> list[np.ndarray] | None:
        """What the node makes; None if that is not to be computed here."""
        scope = node.scope
        if node.domain or node.op_type not in MOVES or scope.elem_type(node.inputs[0]) not in QUANTIZED:
            return None
        if not all(scope.is_constant(name) for name in node.inputs if name):
            return None
        if scope.outputs.intersection(node.outputs):
            return None  # no engine returns a constant
        shapes = [_fixed(scope.dims(name)) for name in node.outputs]
        fixed = [shape for shape in shapes if shape is not None]
        feeds = {name: array for name in node.inputs if (array := scope.constant(name)) is not None}
        size, given = sum(map(prod, fixed)), sum(feeds[name].size for name in node.inputs if name)
        if len(fixed) < len(shapes) or size > min(given, self._left):
            return None
        self._left -= size
        if node.op_type in _RESHAPES:
            return [feeds[node.inputs[0]].reshape(fixed[0])]
        if node.op_type == "Slice":
            return [_sliced(node, feeds)]
        return evaluated(node.proto, self._graph.opset(""), feeds)


def _fixed(dims: tuple[Dim, ...] | None) -> tuple[int, ...] | None:
    sizes = tuple(dim for dim in dims or () if isinstance(dim, int))
    return None if dims is None or len(sizes) < len(dims) else sizes


def _sliced(node: Node, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """As onnxruntime does it: ONNX's reference implementation has nothing where a start before the first runs back."""
    data = feeds[node.inputs[0]]
    given = {a.name: helper.get_attribute_value(a) for a in node.proto.attribute}  # as in early opsets
    given |= {
        name: feeds[value] for name, value in zip(_BOUNDS, node.inputs[1:], strict=False) if value in feeds
    }
    index: list[slice] = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(given["starts"], given["ends"], strict=True)):
        axis = given.get("axes", range(data.ndim))[i]
        step = int(given["steps"][i]) if "steps" in given else 1
        size = data.shape[axis]
        first, last = (int(value) + size if value < 0 else int(value) for value in (start, end))
        if step > 0:
            index[axis] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
        else:
            last = min(max(last, -1), size - 1)
            index[axis] = slice(min(max(first, 0), size - 1), None if last < 0 else last, step)
    return data[tuple(index)]

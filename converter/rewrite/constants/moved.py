"""Folds transposed, sliced and concatenated quantized constants, so that DequantizeLinear reads a constant.

TensorRT takes constants of 8 and 4 bits in front of DequantizeLinear alone. The results are of the constants' type and no
larger, so that nothing is lost by folding weights of any size.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.constants.moves import MOVES
from trtsmith.converter.rewrite.constants.quantized_types import QUANTIZED
from trtsmith.converter.rewrite.engine.records import Rewrite

NAME = "quantized-moves"

_MOST = 2**29
"""Bytes of all results: they are in the model's own message, which holds no more than 2 GiB."""


def fold_moves(graph: Graph) -> tuple[Rewrite, ...]:
    """Puts constants in the places of such nodes; a record for each. Types are inferred, before and afterwards."""
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
        inputs = [scope.constant(name) if name else None for name in node.inputs]
        size, given = sum(map(prod, fixed)), sum(array.size for array in inputs if array is not None)
        if len(fixed) < len(shapes) or size > min(given, self._left):
            return None
        self._left -= size
        attributes = {a.name: helper.get_attribute_value(a) for a in _attributes(node.proto)}
        return MOVES[node.op_type](attributes, inputs, fixed)


def _fixed(dims: tuple[Dim, ...] | None) -> tuple[int, ...] | None:
    sizes = tuple(dim for dim in dims or () if isinstance(dim, int))
    return None if dims is None or len(sizes) < len(dims) else sizes


def _attributes(proto: onnx.NodeProto) -> list[onnx.AttributeProto]:
    return [a for a in proto.attribute if a.type in (a.INT, a.INTS)]

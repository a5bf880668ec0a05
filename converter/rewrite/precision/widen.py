"""Widens every float16 or bfloat16 value, weight and attribute of a network to float32.

Measures the largest magnitude of every value in a float32 run in onnxruntime.

Each magnitude is computed inside the graph, next to its value, so that memory holds hardly more than in an ordinary run:
no intermediate result is an output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.local_functions import inline
from trtsmith.converter.rewrite.precision.constants import Converted
from trtsmith.converter.rewrite.precision.emulate import REDUCED, TYPE_ATTRIBUTES
from trtsmith.converter.rewrite.precision.reduce import Reduction
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.dtypes import dtype_name

_MAGNITUDE_OPSET = 11
"""From here on the operators that magnitudes are written in are the same."""


@dataclass(frozen=True)
class MeasuredRun:
    """A run in float32: its outputs, and the largest finite magnitude of every float32 value of the outermost graph.

    Both by name; infinities count as no magnitude.
    """

    outputs: Mapping[str, np.ndarray]
    magnitudes: Mapping[str, float]


def measured_run(model: Model, feeds: Mapping[str, np.ndarray]) -> MeasuredRun | None:
    """Runs a model without plugin nodes (trtsmith.converter.rewrite.rewrite.expand); None if onnxruntime does not."""
    model = infer_shapes(model)
    proto = model.copied()
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset < _MAGNITUDE_OPSET:
        return None
    names = FreshNames.of(proto)
    graph = proto.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    seen = [v.name for v in graph.input if types[v.name] == T.FLOAT]
    seen += [name for node in graph.node for name in node.output if types.get(name) == T.FLOAT]
    wanted = [value.name for value in graph.output]
    constants: dict[str, np.ndarray] = {
        "zero": np.zeros(1, np.float32),
        "infinity": np.array(np.inf, np.float32),
        "flat": np.array([-1], np.int64),
    }
    known = {key: names.value(f"magnitude/{key}") for key in constants}
    graph.initializer.extend(numpy_helper.from_array(array, known[key]) for key, array in constants.items())
    results = {name: names.value(f"magnitude/{name}") for name in seen}
    nodes = [
        step for v in graph.input if v.name in results for step in _magnitude(v.name, results, known, names)
    ]
    for node in graph.node:
        nodes.append(node)
        for name in node.output:
            if name in results:
                nodes.extend(_magnitude(name, results, known, names))
    del graph.node[:]
    graph.node.extend(nodes)
    graph.output.extend(helper.make_tensor_value_info(result, T.FLOAT, []) for result in results.values())
    try:
        found = run(model.with_proto(proto), feeds, in_order=True)
    except ConversionError:
        return None
    sizes = {name: float(found[result]) for name, result in results.items()}
    return MeasuredRun({name: found[name] for name in wanted}, sizes)


def _magnitude(
    name: str, results: Mapping[str, str], known: Mapping[str, str], names: FreshNames
) -> list[onnx.NodeProto]:
    """max |x| over the finite elements and zero, so that an empty tensor has one."""
    result = results[name]
    steps = ("size", "flat", "with_zero", "finite", "counted")
    size, flat, joined, finite, counted = (names.value(f"{result}/{step}") for step in steps)
    return [
        helper.make_node("Abs", [name], [size]),
        helper.make_node("Reshape", [size, known["flat"]], [flat]),
        helper.make_node("Concat", [flat, known["zero"]], [joined], axis=0),
        helper.make_node("Less", [joined, known["infinity"]], [finite]),  # neither infinite nor NaN
        helper.make_node("Where", [finite, joined, known["zero"]], [counted]),
        helper.make_node("ReduceMax", [counted], [result], keepdims=0),
    ]


_FLOATS: dict[int, str] = {**{elem: dtype_name(elem) for elem in REDUCED}, T.FLOAT: "float32"}


def widen_precision(graph: Graph, *, wide_io: bool = False) -> Reduction:
    """Widens every float16 and bfloat16 value of the graph to float32, in place. The report is empty if it has none.

    wide_io: whether inputs and outputs of the model get float32 too; they keep their types otherwise, with Casts.
    Types are inferred, before and afterwards.
    """
    if graph.functions:
        graph.become(infer_shapes(inline(graph.model(), frozenset(graph.functions))))
    weights = Converted(graph, T.FLOAT)
    work = _Widener(graph, weights)
    for scope in list(graph.scopes()):
        work.inside(scope)
    io_types = work.interface(wide_io)
    graph.infer()
    report = PrecisionReport("float32", work.nodes, (), 0, work.casts, weights.count)
    return Reduction(report, io_types)


class _Widener:
    """`nodes`: how many made values of a reduced type. `casts`: inserted at the edges."""

    def __init__(self, graph: Graph, weights: Converted) -> None:
        self.nodes = self.casts = 0
        self._graph, self._weights = graph, weights
        root = graph.root
        self._edges = {
            name: elem for name in (*root.inputs, *root.results) if (elem := root.elem_type(name)) in REDUCED
        }
        """Inputs and outputs of the model that are of a reduced type, and which."""

    def inside(self, scope: Scope) -> None:
        for tensor in [*scope.defaults.values(), *scope.tensors.values()]:
            if tensor.data_type in REDUCED:
                scope.set_tensor(self._weights.tensor(self._graph.source.array(tensor), tensor.name))
        for node in scope.nodes:
            self.nodes += any(_is_reduced(scope, name) for name in node.outputs)
            self._attributes(node)
        for name in list(scope.types):
            if _is_reduced(scope, name):
                scope.set_elem_type(name, T.FLOAT)

    def _attributes(self, node: Node) -> None:
        if not any(_has_reduced(node, attribute) for attribute in node.proto.attribute):
            return
        for attribute in node.edit().attribute:
            if not _has_reduced(node, attribute):
                continue
            if attribute.HasField("t"):
                values = self._graph.source.array(attribute.t)
                attribute.t.CopyFrom(self._weights.tensor(values, attribute.t.name))
            else:
                attribute.i = T.FLOAT

    def interface(self, wide: bool) -> tuple[IoType, ...]:
        """Sets the types of inputs and outputs: the old ones, with Casts, or float32."""
        if wide:
            return tuple(IoType(name, _FLOATS[elem], "float32") for name, elem in self._edges.items())
        if not self._edges:
            return ()
        root, names = self._graph.root, self._graph.names
        renamed = {name: names.value(f"{name}/float32") for name in self._edges}
        before = [self._cast(name, renamed[name], T.FLOAT) for name in self._edges if name in root.inputs]
        after = [
            self._cast(renamed[name], name, elem)
            for name, elem in self._edges.items()
            if name not in root.inputs
        ]
        for name, elem in self._edges.items():
            root.set_type(renamed[name], root.types[name].type)
            root.set_elem_type(name, elem)
        for node in list(self._graph.nodes()):
            if not renamed.keys().isdisjoint((*node.inputs, *node.outputs)):
                inputs, outputs = (
                    [renamed.get(n, n) for n in values] for values in (node.inputs, node.outputs)
                )
                node.scope.rewire(node, inputs, outputs)
        root.rebuild([*before, *root.nodes, *after])
        return ()

    def _cast(self, source: str, target: str, elem: int) -> onnx.NodeProto:
        self.casts += 1
        name = self._graph.names.node(f"{target}/Cast")
        return helper.make_node("Cast", [source], [target], name, to=elem)


def _is_reduced(scope: Scope, name: str) -> bool:
    value = scope.types.get(name)
    return value is not None and value.type.tensor_type.elem_type in REDUCED


def _has_reduced(node: Node, attribute: onnx.AttributeProto) -> bool:
    """Whether an attribute is a tensor of a reduced type, or names one."""
    if attribute.HasField("t"):
        return attribute.t.data_type in REDUCED
    named = (node.op_type == "Cast" and attribute.name == "to") or attribute.name in TYPE_ATTRIBUTES
    return named and attribute.i in REDUCED

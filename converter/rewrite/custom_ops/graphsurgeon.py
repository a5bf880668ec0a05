"""Converts models to ONNX-GraphSurgeon graphs and back.

GraphSurgeon alone would read weights into memory as soon as one looks at a constant, and drops or mangles
what it has no words for. Here constants stay references to the mapped file, and what it drops is set aside
and put back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.ir.function import Function
from onnx_graphsurgeon.ir.tensor import LazyValues, SparseValues
from onnx_graphsurgeon.logger import G_LOGGER

from trtsmith.converter.model.check import iter_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.custom_ops.graphsurgeon_extras import (
    EmptyList,
    RawAttribute,
    clear_special_types,
    complete_node,
    restore_function_fields,
    restore_graph_fields,
    set_aside_all,
    take_unwritable,
)
from trtsmith.importers.dtypes import numpy_dtype

A = onnx.AttributeProto

# onnxruntime refuses newer ones, and GraphSurgeon's own constant folding then folds nothing, in silence.
_WORKING_IR_VERSION = 10

__all__ = ["EmptyList", "ModelValues", "RawAttribute", "dtype_of", "from_gs", "to_gs"]


class ModelValues(LazyValues):  # type: ignore[misc]  # graphsurgeon has no types
    """Values of a gs.Constant from a Model's tensor; `load` gives a read-only view without copying weights."""

    def __init__(self, tensor: onnx.TensorProto, model: Model) -> None:
        self.tensor = tensor
        self.model = model
        self.shape = list(tensor.dims)
        self.dtype = numpy_dtype(tensor.data_type)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    def load(self) -> npt.NDArray[Any]:
        return self.model.array(self.tensor)


def dtype_of(tensor: gs.Tensor) -> np.dtype[Any] | None:
    """Returns the type of a GraphSurgeon tensor. GraphSurgeon holds a number for types that numpy lacks, such as
    bfloat16.
    """
    dtype = tensor.dtype
    if dtype is None or dtype == onnx.TensorProto.UNDEFINED:  # the latter where the model says nothing
        return None
    return numpy_dtype(dtype) if isinstance(dtype, int) else np.dtype(dtype)


def to_gs(model: Model) -> gs.Graph:
    """Returns the model as an independent GraphSurgeon graph; changing it leaves the model unchanged.

    Constants are read-only numpy views when their `values` are asked for. Attributes that GraphSurgeon cannot
    hold are in `node.attrs` as RawAttribute. `graph.ir_version` is a working one; `from_gs` restores the
    model's.
    """
    proto = model.copied()
    set_aside = list(set_aside_all(proto))
    for graph in iter_graphs(proto.graph):
        clear_special_types(graph)
    severity, G_LOGGER.severity = G_LOGGER.severity, G_LOGGER.ERROR
    try:
        graph = gs.import_onnx(proto)
    finally:
        G_LOGGER.severity = severity
    for node, kept in zip(_all_nodes(graph), set_aside, strict=True):
        kept.put_back(node)
    for constant in _constants(graph):
        values = constant._values
        if isinstance(values, LazyValues) and not isinstance(values, SparseValues):
            constant._values = ModelValues(values.tensor, model)
    graph.ir_version = min(proto.ir_version, _WORKING_IR_VERSION)
    return graph


def from_gs(graph: gs.Graph, model: Model) -> Model:
    """Returns the graph as a model again, with the weights of `model`, from which it was made.

    Constants that are, or are views of, the model's weights are written as references; new ones as data. IR
    version, model metadata and everything else outside the graph are those of `model`. `graph` is as before
    afterwards.
    """
    values_before = _make_lazy(graph, model)
    attributes_before = [(node, take_unwritable(node)) for node in _all_nodes(graph)]
    severity, G_LOGGER.severity = G_LOGGER.severity, G_LOGGER.ERROR
    try:
        exported = gs.export_onnx(graph, do_type_check=False)
    finally:
        G_LOGGER.severity = severity
        for constant, values in values_before:
            constant._values = values
        for node, attributes in attributes_before:
            node.attrs.update(attributes)
    for (node, attributes), node_proto in zip(
        attributes_before, _written_nodes(graph, exported), strict=True
    ):
        complete_node(node_proto, node, attributes)
    proto = model.copied()
    restore_graph_fields(exported.graph, model.proto.graph)
    restore_function_fields(exported.functions, model.proto.functions)
    _drop_repeated_initializers(exported.graph)
    for field in ("graph", "functions", "opset_import"):
        proto.ClearField(field)
    proto.graph.CopyFrom(exported.graph)
    proto.functions.extend(exported.functions)
    proto.opset_import.extend(exported.opset_import)
    return model.with_proto(proto)


def _all_nodes(graph: gs.Graph) -> Iterator[gs.Node]:
    """Every node: those of a subgraph follow the node that has it, those of functions come last."""
    yield from _nested_nodes(graph.nodes)
    for function in graph.functions:
        yield from _nested_nodes(function.nodes)


def _nested_nodes(nodes: Iterable[gs.Node]) -> Iterator[gs.Node]:
    for node in nodes:
        yield node
        for value in list(node.attrs.values()):
            if isinstance(value, gs.Graph):
                yield from _nested_nodes(value.nodes)


def _written_nodes(graph: gs.Graph, exported: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The exported form of each node of `_all_nodes`, in the same order."""
    nodes = list(_nested_protos(exported.graph.node))
    for function, proto in zip(graph.functions, exported.functions, strict=True):
        # In front of a function's own nodes the exporter puts a Constant node for each gs.Constant.
        nodes += list(_nested_protos(list(proto.node)[len(proto.node) - len(function.nodes) :]))
    return nodes


def _nested_protos(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in list(node.attribute):
            if attribute.type == A.GRAPH and not attribute.ref_attr_name:
                yield from _nested_protos(attribute.g.node)


def _constants(graph: gs.Graph) -> Iterator[gs.Constant]:
    """Every constant of the graph, its subgraphs, attributes and functions, once."""
    seen: set[int] = set()
    containers: list[gs.Graph | Function] = [graph, *graph.functions]
    while containers:
        container = containers.pop()
        tensors: list[Any] = [*container.inputs, *container.outputs]
        for node in container.nodes:
            tensors += [*node.inputs, *node.outputs]
            for value in node.attrs.values():
                if isinstance(value, gs.Graph):
                    containers.append(value)
                elif isinstance(value, gs.Tensor):
                    tensors.append(value)
        for tensor in tensors:
            if isinstance(tensor, gs.Constant) and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor


def _make_lazy(graph: gs.Graph, model: Model) -> list[tuple[gs.Constant, Any]]:
    """Replaces the values of every constant by a TensorProto for the export; returns the old values.

    The exporter renames the proto that it is given, copies arrays twice, and writes wrong bytes or types for
    some arrays (4-bit, float8 e4m3fnuz, and any that came from external data).
    """
    before = []
    for constant in _constants(graph):
        values = constant._values
        if isinstance(values, SparseValues) or constant._export_dtype is not None:
            continue
        if isinstance(values, LazyValues):
            tensor = onnx.TensorProto()
            tensor.CopyFrom(values.tensor)
        else:
            tensor = model.tensor(np.asarray(values), constant.name)
        before.append((constant, values))
        constant._values = ModelValues(tensor, model)
    return before


def _drop_repeated_initializers(graph: onnx.GraphProto) -> None:
    """Undoes the exporter's habit of writing an outer graph's constant into every subgraph that uses it.

    A constant that is the same in several graphs is kept in the outermost alone; names are unique across
    nested graphs.
    """
    subgraphs = list(iter_graphs(graph))[1:]
    if not subgraphs:
        return
    outer = {_key(tensor) for tensor in graph.initializer}
    counts = Counter(_key(tensor) for subgraph in subgraphs for tensor in subgraph.initializer)
    variants = Counter(name for name, _ in counts)
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {value.name for value in graph.input} | {name for name, _ in outer}
    hoist = {
        (name, content)
        for (name, content), count in counts.items()
        if count > 1 and variants[name] == 1 and name not in taken
    }
    for _, content in sorted(hoist):
        graph.initializer.append(onnx.TensorProto.FromString(content))
    for subgraph in subgraphs:
        for index in reversed(range(len(subgraph.initializer))):
            if _key(subgraph.initializer[index]) in outer | hoist:
                del subgraph.initializer[index]


def _key(tensor: onnx.TensorProto) -> tuple[str, bytes]:
    return tensor.name, tensor.SerializeToString(deterministic=True)

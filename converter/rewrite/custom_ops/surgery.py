"""Holds graph surgery that the passes share: walking graphs, reading nodes, replacing nodes by ONNX nodes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from trtsmith.converter.rewrite.custom_ops.graphsurgeon import EmptyList, RawAttribute, dtype_of
from trtsmith.importers.lowering import ForeignNode
from trtsmith.importers.registry import normalise_domain

CONSTANT_LIMIT = 1024
"""Elements of a constant that a pass may read: attributes fed as inputs, never weights."""


def all_graphs(graph: gs.Graph) -> Iterator[gs.Graph]:
    """Yields the graph and every subgraph of its nodes, outer ones first."""
    yield graph
    for node in graph.nodes:
        for value in node.attrs.values():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, gs.Graph):
                    yield from all_graphs(item)


def opset_of(graph: gs.Graph, domain: str) -> int:
    """Returns the version of the domain that the model imports; 1 for a custom domain without an import."""
    if domain == "":
        return int(graph.opset)
    versions = {entry.domain: int(entry.version) for entry in graph.import_domains or ()}
    return versions.get(domain, 1)


def domain_of(node: gs.Node) -> str:
    """Returns the node's domain; "" for the default one under either of its names."""
    return normalise_domain(node.domain)


def constant_of(tensor: gs.Tensor) -> np.ndarray | None:
    """Returns the value of a small initializer or Constant node; None for others."""
    if isinstance(tensor, gs.Constant):
        size = int(np.prod([int(d) for d in tensor.shape], dtype=np.float64))
        return np.asarray(tensor.values) if size <= CONSTANT_LIMIT else None
    if len(tensor.inputs) != 1 or tensor.inputs[0].op != "Constant":
        return None
    attrs = tensor.inputs[0].attrs
    value = next((v for k, v in attrs.items() if k.startswith("value")), None)
    if isinstance(value, gs.Tensor):
        return constant_of(value)
    return None if value is None or isinstance(value, RawAttribute) else np.asarray(value)


def known_shape(tensor: gs.Tensor) -> tuple[int | None, ...] | None:
    """Returns the tensor's shape with None for unknown dimensions; None for an unknown rank."""
    if tensor.shape is None:
        return None
    return tuple(int(d) if isinstance(d, (int, np.integer)) and d >= 0 else None for d in tensor.shape)


def foreign_node(node: gs.Node, name: str, wanted: Container[str]) -> ForeignNode:
    """Returns the node in the form for trtsmith.importers.lowering. `name` is unique in the model.

    wanted: names of the graph's outputs; of a node's others, those that no node reads count as left out.
    """
    tensors = {tensor.name: tensor for tensor in node.inputs if not tensor.is_empty()}

    def constant(value: str) -> np.ndarray | None:
        return constant_of(tensors[value])

    dtypes = {value: dtype_of(tensor) for value, tensor in tensors.items()}
    shapes = {value: known_shape(tensor) for value, tensor in tensors.items()}
    return ForeignNode(
        name=name,
        op_type=node.op,
        domain=domain_of(node),
        attributes={k: list(v) if isinstance(v, EmptyList) else v for k, v in node.attrs.items()},
        inputs=tuple("" if tensor.is_empty() else tensor.name for tensor in node.inputs),
        outputs=tuple(t.name if t.outputs or t.name in wanted else "" for t in node.outputs),
        constant=constant,
        dtypes={value: str(dtype) for value, dtype in dtypes.items() if dtype is not None},
        shapes={value: shape for value, shape in shapes.items() if shape is not None},
    )


def value_names(graph: gs.Graph) -> set[str]:
    """Returns the names of all values of the graph and its subgraphs."""
    names: set[str] = set()
    for part in all_graphs(graph):
        names.update(tensor.name for tensor in (*part.inputs, *part.outputs))
        for node in part.nodes:
            names.update(tensor.name for tensor in (*node.inputs, *node.outputs))
    return names


def with_fresh_names(
    protos: Iterable[onnx.NodeProto], own: Container[str], taken: set[str]
) -> list[onnx.NodeProto]:
    """Returns the nodes with new values (those not in `own`) renamed to names outside `taken`, to which these are added."""
    renamed: dict[str, str] = {}
    result = []
    for proto in protos:
        node = onnx.NodeProto()
        node.CopyFrom(proto)
        for index, name in enumerate(node.output):
            if name and name not in own:
                fresh, number = name, 0
                while fresh in taken:
                    number += 1
                    fresh = f"{name}_{number}"
                taken.add(fresh)
                renamed[name] = fresh
                node.output[index] = fresh
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        result.append(node)
    return result


def build_nodes(protos: Iterable[onnx.NodeProto], tensors: Mapping[str, gs.Tensor]) -> list[gs.Node]:
    """Builds GraphSurgeon nodes from ONNX nodes over `tensors`, by name; other names become new variables.

    Constant nodes become constants.
    """
    known = dict(tensors)
    nodes = []
    for proto in protos:
        attrs = {a.name: _attribute(helper.get_attribute_value(a)) for a in proto.attribute}
        if proto.op_type == "Constant" and not proto.domain:
            values = np.asarray(onnx.numpy_helper.to_array(attrs["value"]))
            known[proto.output[0]] = gs.Constant(proto.output[0], values)
            continue
        inputs = [known.setdefault(n, gs.Variable(n)) if n else gs.Variable.empty() for n in proto.input]
        outputs = [known.setdefault(n, gs.Variable(n)) if n else gs.Variable.empty() for n in proto.output]
        nodes.append(gs.Node(proto.op_type, proto.name, attrs, inputs, outputs, domain=proto.domain or None))
    return nodes


def _attribute(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def replace_nodes(graph: gs.Graph, replacements: Mapping[int, list[onnx.NodeProto]]) -> None:
    """Replaces nodes, given by id(node), by ONNX nodes; the old nodes' values keep their names."""
    if not replacements:
        return
    nodes: list[gs.Node] = []
    for node in graph.nodes:
        protos = replacements.get(id(node))
        if protos is None:
            nodes.append(node)
            continue
        tensors = {t.name: t for t in (*node.inputs, *node.outputs) if not t.is_empty()}
        node.inputs.clear()
        node.outputs.clear()
        nodes.extend(build_nodes(protos, tensors))
    graph.nodes[:] = nodes


def ensure_domain(graph: gs.Graph, domain: str) -> None:
    """Adds an opset import of version 1 for the domain unless the model has one."""
    if domain not in {entry.domain for entry in graph.import_domains or ()}:
        graph.import_domains = [*(graph.import_domains or ()), helper.make_opsetid(domain, 1)]

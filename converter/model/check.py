"""Checks a model before the conversion, on a skeleton without weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, islice
from typing import Any

import onnx
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from trtsmith.converter.model.nodes.function_check import check_functions
from trtsmith.converter.model.nodes.node_check import check_nodes
from trtsmith.converter.model.structure import check_structure
from trtsmith.converter.model.tensors import MOST_DIMENSIONS, check_tensor, is_external, too_large
from trtsmith.importers.problem import Problem

_DATA_TYPES = frozenset(onnx.TensorProto.DataType.values())
_MOST_VERSION = (1 << 31) - 1  # onnx and onnxruntime keep versions in 32 bits
_MOST = 50  # a broken file can have a problem for every tensor; nobody reads more than this

_MOST_NODES = 500_000
"""`check` took 80 us for each of 35,000."""

_MOST_NESTED = 30_000
"""Of nodes in graphs in graphs, which rules look at once for each graph around them. `check` took 22 s for 140,000."""


def iter_tensors(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, str]]:
    """Yields every dense TensorProto that a node of the model reads, with a description of its place.

    Initializers of the graph and of subgraphs, and tensor attributes, in the functions' bodies too.
    """
    yield from _graph_tensors(proto.graph, "")
    for function in proto.functions:
        suffix = f", function {function.domain}.{function.name}"
        yield from _node_tensors(function.node, suffix)
        yield from _attribute_tensors(function.attribute_proto, suffix)


def _graph_tensors(graph: onnx.GraphProto, suffix: str) -> Iterator[tuple[onnx.TensorProto, str]]:
    for tensor in graph.initializer:
        yield tensor, f"initializer {tensor.name[:200]!r}{suffix}"
    yield from _node_tensors(graph.node, suffix)


def _node_tensors(nodes: Iterable[onnx.NodeProto], suffix: str) -> Iterator[tuple[onnx.TensorProto, str]]:
    for node in nodes:
        if node.attribute:
            name = node.name or (node.output[0] if node.output else "")
            yield from _attribute_tensors(
                node.attribute, f", node {name[:200]!r} ({node.op_type[:200]}){suffix}"
            )


def _attribute_tensors(
    attributes: Iterable[onnx.AttributeProto], suffix: str
) -> Iterator[tuple[onnx.TensorProto, str]]:
    for attribute in attributes:
        if attribute.HasField("t") and not attribute.ref_attr_name:
            yield attribute.t, f"attribute {attribute.name!r}{suffix}"
        for tensor in attribute.tensors:
            yield tensor, f"attribute {attribute.name!r}{suffix}"
        if attribute.HasField("g"):
            yield from _graph_tensors(attribute.g, suffix)
        for graph in attribute.graphs:
            yield from _graph_tensors(graph, suffix)


def iter_graphs(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[Any]:
    """Yields the graph or function, and every subgraph in its nodes' attributes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from iter_graphs(subgraph)


def check_header(proto: onnx.ModelProto, file: str) -> list[Problem]:
    """Finds problems of node count, texts and versions. After any of these, nothing else is checked."""
    return _check_size(proto, file) or _check_text(proto, file) or _check_versions(proto, file)


def check_contents(proto: onnx.ModelProto, file: str) -> list[Problem]:
    """Finds problems of tensors, graph and nodes in a model with a sound header, without its external files; at most 50."""
    checks = check_structure(proto, file), check_functions(proto, file), check_nodes(proto, file)
    return list(islice(chain(_check_tensors(proto, file), *checks), _MOST))


def _check_size(proto: onnx.ModelProto, file: str) -> list[Problem]:
    if len(proto.graph.node) > _MOST_NODES:
        return [_too_many(len(proto.graph.node), file)]
    bodies = [onnx.GraphProto(node=function.node) for function in proto.functions]
    counts = [pair for top in (proto.graph, *bodies) for pair in _node_counts(top)]
    count = sum(nodes for _, nodes in counts)
    if count > _MOST_NODES:
        return [_too_many(count, file)]
    again = sum(max(depth - 1, 0) * nodes for depth, nodes in counts)
    if again <= _MOST_NESTED:
        return []
    deepest = max(depth for depth, _ in counts)
    what = f"Subgraphs are nested {deepest} deep, with {again:,} nodes in all."
    expected = f"at most {_MOST_NESTED:,} nodes, each counted once for every level of nesting above the first"
    return [Problem(what, file, expected, "export the model with fewer nested loops and branches")]


def _too_many(count: int, file: str) -> Problem:
    fix = "export the model without unrolled loops, or in parts"
    return Problem(f"The model has {count:,} nodes.", file, f"at most {_MOST_NODES:,}", fix)


def _node_counts(graph: onnx.GraphProto, depth: int = 0) -> Iterator[tuple[int, int]]:
    """The nesting depth and the node count of each graph."""
    yield depth, len(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _node_counts(inner, depth + 1)


def _check_text(proto: onnx.ModelProto, file: str) -> list[Problem]:
    """Reports names that are not UTF-8: protobuf accepts them, and later returns bytes or raises."""
    try:
        is_text = _is_text(proto)
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        return []
    what = "A name in the model is not UTF-8 text."
    return [Problem(what, file, "the exporter's file, unchanged", "copy or export the model again")]


def _is_text(message: Message) -> bool:
    fields = _text_fields(message.DESCRIPTOR)
    for field, value in message.ListFields():
        nested = fields.get(field.number)
        if nested:
            if not all(map(_is_text, (value,) if isinstance(value, Message) else value)):
                return False
        elif nested is False and bytes in set(
            map(type, (value,) if isinstance(value, (str, bytes)) else value)
        ):
            return False
    return True


@cache
def _text_fields(descriptor: Descriptor) -> dict[int, bool]:
    """The fields of a message type that are text (False) or messages (True), by number.

    A model has many messages of few kinds.
    """
    return {
        field.number: field.message_type is not None
        for field in descriptor.fields
        if field.message_type is not None or field.type == field.TYPE_STRING
    }


def _check_versions(proto: onnx.ModelProto, file: str) -> list[Problem]:
    again = "export the model again"
    if not proto.HasField("graph"):
        what = "The file holds no graph." if proto.ir_version else "The file is not an ONNX model."
        return [
            Problem(what, file, "a serialised onnx.ModelProto with a graph", "name the .onnx file itself")
        ]
    problems = []
    newest_ir, newest_opset = int(onnx.IR_VERSION), onnx.defs.onnx_opset_version()
    if not 1 <= proto.ir_version <= newest_ir:
        what = f"The model's IR version is {proto.ir_version or 'missing'}."
        fix = f"{again} with an IR version that the installed onnx {onnx.__version__} knows, or update onnx"
        problems.append(Problem(what, file, f"1 to {newest_ir}", fix))
    if not proto.opset_import:
        problems.append(
            Problem("The model imports no opset.", file, "an opset for every domain in use", again)
        )
    versions: dict[str, int] = {}
    for opset in chain(proto.opset_import, *(function.opset_import for function in proto.functions)):
        if not 0 <= opset.version <= _MOST_VERSION:
            what = f"The domain {opset.domain[:200]!r} is imported as opset {opset.version}."
            problems.append(Problem(what, file, f"0 to {_MOST_VERSION}", again))
    for opset in proto.opset_import:
        domain = "" if opset.domain == "ai.onnx" else opset.domain
        if versions.setdefault(domain, opset.version) != opset.version:
            what = f"The domain {domain!r} is imported as opset {versions[domain]} and {opset.version}."
            problems.append(Problem(what, file, "one opset for each domain", again))
    if "" in versions and not 1 <= versions[""] <= newest_opset:
        what = f"The model imports ONNX opset {versions['']}, which onnx {onnx.__version__} does not know."
        fix = f"{again} with opset {newest_opset} or lower, or update onnx"
        problems.append(Problem(what, file, f"an opset from 1 to {newest_opset}", fix))
    standard = next((node for node in proto.graph.node if node.domain in ("", "ai.onnx")), None)
    if versions and "" not in versions and standard is not None:
        what = f"The model uses ONNX's own {standard.op_type} but imports no ONNX opset."
        problems.append(Problem(what, file, "an opset import of the domain ''", again))
    return problems


def _check_tensors(proto: onnx.ModelProto, file: str) -> Iterator[Problem]:
    left = _MOST
    bodies = [onnx.GraphProto(name=function.name, node=function.node) for function in proto.functions]
    yield from _check_types(proto.graph, file)
    for graph in (graph for top in (proto.graph, *bodies) for graph in iter_graphs(top)):
        problems = (*_check_names(graph, file), *_check_values(graph, file), *_check_sparse(graph, file))
        for problem in problems:
            yield problem
            left -= 1
            if left <= 0:
                return
    for tensor, where in iter_tensors(proto):
        tensor_problem = check_tensor(tensor, f"{file}: {where}")
        if tensor_problem is not None:
            yield tensor_problem
            left -= 1
            if left <= 0:
                return


def _check_types(graph: onnx.GraphProto, file: str) -> Iterator[Problem]:
    """Checks the types of a model's inputs; types of subgraph inputs may be left to inference."""
    initializers = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        kind = value.type.WhichOneof("value")
        untyped = kind is None or (kind == "tensor_type" and not value.type.tensor_type.elem_type)
        if untyped and value.name not in initializers:
            what, where = "The input has no data type.", f"{file}: {value.name[:200]!r}"
            yield Problem(what, where, "a data type that ONNX defines", "export the model again")


def _check_values(graph: onnx.GraphProto, file: str) -> Iterator[Problem]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        if not value.type.HasField("tensor_type"):
            continue
        tensor_type = value.type.tensor_type
        where = f"{file}: {value.name[:200]!r}"
        dims = tuple(dim.dim_value for dim in tensor_type.shape.dim)
        if tensor_type.elem_type not in _DATA_TYPES:
            what = f"It has the data type {tensor_type.elem_type}."
            yield Problem(what, where, "a data type that ONNX defines", "export the model again")
        # -1 is how old exporters write a dynamic dimension
        if len(dims) > MOST_DIMENSIONS:
            what, expected = f"It has {len(dims):,} dimensions.", f"at most {MOST_DIMENSIONS}, numpy's limit"
            yield Problem(what, where, expected, "export the model again")
        elif any(size < -1 for size in dims) or too_large(dims):
            what = f"It has the shape {list(dims)}."
            yield Problem(what, where, "sizes that a machine can hold", "export the model again")


def _check_sparse(graph: onnx.GraphProto, file: str) -> Iterator[Problem]:
    """Reports sparse tensors with external data, as only dense tensors are memory-mapped."""
    sparse = list(graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            sparse += [*attribute.sparse_tensors]
            sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for item in sparse:
        where = f"{file}: sparse tensor {item.values.name[:200]!r}"
        for tensor in (item.values, item.indices):
            if is_external(tensor):
                what = "A sparse tensor has external data."
                yield Problem(
                    what,
                    where,
                    "sparse tensors inside the model",
                    "save the model with its sparse tensors inside",
                )
            else:
                problem = check_tensor(tensor, where)
                if problem is not None:
                    yield problem


def _check_names(graph: onnx.GraphProto, file: str) -> Iterator[Problem]:
    seen: set[str] = set()
    names = [tensor.name for tensor in graph.initializer]
    names += [tensor.values.name for tensor in graph.sparse_initializer]
    for name in names:
        if name in seen or not name:
            what = f"Two initializers are called {name[:200]!r}." if name else "An initializer has no name."
            yield Problem(
                what, f"{file}: graph {graph.name!r}", "a unique name for each", "export the model again"
            )
        seen.add(name)

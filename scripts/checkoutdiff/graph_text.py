"""Turns an ONNX model into comparable rows of text, with a digest of each node that ignores generated names.

A row says all that a node says: where it is, operator, name, inputs, outputs, attributes. Weights are named by their type,
shape and a digest of their bytes. Two models with equal rows are equal but for comments and inferred types.

The digest of a node is made of the digests of what it reads, as in a Merkle tree, and of who reads it. Names enter it only
if the original model had them, so graphs with the same digests are the same but for names that a program made up.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto as Attribute
from onnx import TensorProto, helper, numpy_helper

SHOWN = 4
"""Elements of a tensor that are shown; of larger ones the digest only."""

Row = list[Any]
"""[where, operator, name, inputs, outputs, attributes]"""

Scope = Mapping[str, "ReadValue"]


@dataclass(frozen=True)
class ReadValue:
    """A readable value: its own number, and the digest of its computation."""

    key: int
    digest: str


def all_names(model: onnx.ModelProto) -> frozenset[str]:
    """Every node and value name, including subgraphs and functions."""
    found: set[str] = set()
    for graph in _graphs(model):
        for node in graph.node:
            found.update((node.name, *node.input, *node.output))
        if isinstance(graph, onnx.GraphProto):
            found.update(value.name for value in (*graph.input, *graph.output))
            found.update(tensor.name for tensor in graph.initializer)
    return frozenset(found - {""})


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.type == Attribute.GRAPH else attribute.graphs


def describe(model: onnx.ModelProto, folder: Path, kept: frozenset[str]) -> dict[str, Any]:
    """The model as plain data. folder: of its external weights. kept: names chosen by the user.

    heads:  what is said of the whole model, its inputs and outputs, a line each.
    rows:   initializers by name, then nodes in order; those of a subgraph before the node that holds it.
    digests, prints: of each row, without and with who reads what it makes.
    types:  a digest of the inferred types, which TensorRT does not read.
    """
    writer = _RowWriter(folder, kept)
    heads = [f"IR version {model.ir_version}"]
    heads += sorted(f"opset {o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    heads += sorted(f"metadata {entry.key} = {entry.value}" for entry in model.metadata_props)
    heads += [f"input {_value(value)}" for value in model.graph.input]
    heads += [f"output {_value(value)}" for value in model.graph.output]
    for function in sorted(model.functions, key=lambda f: (f.domain, f.name, f.overload)):
        opsets = sorted(f"{o.domain or 'ai.onnx'} {o.version}" for o in function.opset_import)
        owner = f"{function.domain}::{function.name}"
        scope = {name: writer.new("parameter", index) for index, name in enumerate(function.input)}
        results = writer.body(function.node, scope, f"{owner}/")
        given = [
            *function.attribute,
            *sorted(f"{a.name}={writer.attribute(a, {}, '')[0]}" for a in function.attribute_proto),
        ]
        heads.append(
            f"function {owner} ({', '.join(function.input)}) -> ({', '.join(function.output)}) {given} {opsets}"
        )
        heads.append(
            f"body of {owner} {_digest(*(results[name].digest for name in function.output if name in results))}"
        )
    writer.graph(model.graph, {}, "", outermost=True)
    types = sorted(_value(value) for value in model.graph.value_info)
    return {
        "heads": heads,
        "rows": writer.rows,
        "digests": writer.digests,
        "prints": writer.prints(),
        "types": _digest(*types),
    }


@dataclass
class _RowWriter:
    folder: Path
    kept: frozenset[str]
    rows: list[Row] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    made: list[list[ReadValue]] = field(default_factory=list)  # by each row
    readers: dict[int, list[str]] = field(default_factory=dict)  # of values, by their keys
    keys: int = 0

    def new(self, *parts: object) -> ReadValue:
        self.keys += 1
        return ReadValue(self.keys, _digest(*parts))

    def prints(self) -> list[str]:
        """The digests, each combined with its readers, which distinguishes equal nodes."""
        return [
            _digest(
                digest,
                *(part for known in made for part in ("read by", *sorted(self.readers.get(known.key, ())))),
            )
            for digest, made in zip(self.digests, self.made, strict=True)
        ]

    def graph(
        self, graph: onnx.GraphProto, outer: Scope, where: str, outermost: bool = False
    ) -> tuple[str, str]:
        """The graph's signature and its digest."""
        first = len(self.rows)
        scope = dict(outer)
        fed = {value.name for value in graph.input}
        for index, value in enumerate(graph.input):
            name = value.name if outermost else self._own(value.name)
            scope[value.name] = self.new("input", index, name, type_text(value.type))
        weights = [(tensor.name, tensor_text(tensor, self.folder)) for tensor in graph.initializer]
        weights += [(t.values.name, _sparse_text(t, self.folder)) for t in graph.sparse_initializer]
        for name, content in sorted(weights):
            known = self.new("initializer", content, self._own(name))
            # One that is an input too is a default, which the caller may replace.
            scope[name] = self.new(scope[name].digest, known.digest) if name in fed else known
            self._add([where, "initializer", name, [], [name], content], known.digest, [scope[name]])
        scope = self.body(graph.node, scope, where)
        ends: list[object] = []
        for index, value in enumerate(graph.output):
            known = scope.get(value.name) or _nobodys(value.name)
            name = value.name if outermost else self._own(value.name)
            ends += [name, type_text(value.type), known.digest]
            self.readers.setdefault(known.key, []).append(f"output {index} of {where or 'the model'}")
        inputs, outputs = (", ".join(map(_value, values)) for values in (graph.input, graph.output))
        return f"graph({inputs}) -> ({outputs})", _digest(*ends, *sorted(self.digests[first:]))

    def body(self, nodes: Sequence[onnx.NodeProto], scope: Scope, where: str) -> dict[str, ReadValue]:
        """Adds the nodes, and returns the scope after them."""
        known = dict(scope)
        for index, node in enumerate(nodes):
            self._node(node, known, where, index)
        return known

    def _node(self, node: onnx.NodeProto, scope: dict[str, ReadValue], where: str, index: int) -> None:
        texts, parts = [], []
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            text, digest = self.attribute(attribute, scope, f"{where}{index}/{attribute.name}/")
            texts.append(f"{attribute.name}={text}")
            parts += [attribute.name, digest]
        operator = "::".join(part for part in (node.domain, node.op_type, node.overload) if part)
        texts += sorted(f"metadata {entry.key}={entry.value}" for entry in node.metadata_props)
        read = [scope.get(name) or _nobodys(name) for name in node.input]
        digest = _digest(
            operator, self._own(node.name), len(read), *(value.digest for value in read), *parts,
            *(self._own(name) if name else "no output" for name in node.output),
        )  # fmt: skip
        for position, value in enumerate(read):
            self.readers.setdefault(value.key, []).append(f"{digest} {position}")
        made = [self.new(digest, position) for position in range(len(node.output))]
        scope.update({name: value for name, value in zip(node.output, made, strict=True) if name})
        row = [where, operator, node.name, list(node.input), list(node.output), ", ".join(texts)]
        self._add(row, digest, made)

    def _own(self, name: str) -> str:
        return name if name in self.kept else ""

    def _add(self, row: Row, digest: str, made: list[ReadValue]) -> None:
        self.rows.append(row)
        self.digests.append(digest)
        self.made.append(made)

    def attribute(self, attribute: Attribute, scope: Scope, where: str) -> tuple[str, str]:
        """The attribute's value as text, and a digest, which differs from the text for subgraphs."""
        if attribute.ref_attr_name:
            return (text := f"@{attribute.ref_attr_name}"), text
        if attribute.type == Attribute.GRAPH:
            return self.graph(attribute.g, scope, where)
        if attribute.type == Attribute.GRAPHS:
            pairs = [self.graph(g, scope, f"{where}{i}/") for i, g in enumerate(attribute.graphs)]
            return ", ".join(text for text, _ in pairs), _digest(*(digest for _, digest in pairs))
        text = self._plain(attribute)
        return text, text

    def _plain(self, attribute: Attribute) -> str:
        value = helper.get_attribute_value(attribute)
        many = attribute.type in (Attribute.TENSORS, Attribute.SPARSE_TENSORS, Attribute.TYPE_PROTOS)
        if attribute.type in (Attribute.TENSOR, Attribute.TENSORS):
            texts = [tensor_text(tensor, self.folder) for tensor in (value if many else [value])]
        elif attribute.type in (Attribute.SPARSE_TENSOR, Attribute.SPARSE_TENSORS):
            texts = [_sparse_text(tensor, self.folder) for tensor in (value if many else [value])]
        elif attribute.type in (Attribute.TYPE_PROTO, Attribute.TYPE_PROTOS):
            texts = [type_text(type_) for type_ in (value if many else [value])]
        else:
            kind = Attribute.AttributeType.Name(attribute.type).lower()
            return f"{list(value) if kind.endswith('s') else value!r} ({kind})"
        return f"[{', '.join(texts)}]" if many else texts[0]


def _nobodys(name: str) -> ReadValue:
    """A value without a producer: a missing input, or a mistake."""
    return ReadValue(0, _digest("nobody's", name))


def _digest(*parts: object) -> str:
    return hashlib.blake2b(
        "\0".join(map(str, parts)).encode(errors="surrogateescape"), digest_size=12
    ).hexdigest()


def _value(value: onnx.ValueInfoProto) -> str:
    return f"{value.name}: {type_text(value.type)}"


def type_text(type_: onnx.TypeProto) -> str:
    """float32[batch,3], float32 of unknown rank, sequence(int64[]), ..."""
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(type_, kind)
        name = TensorProto.DataType.Name(tensor.elem_type).lower()
        if not tensor.HasField("shape"):
            return f"{name} of unknown rank"
        dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
        return f"{'sparse ' if kind != 'tensor_type' else ''}{name}[{','.join(dims)}]"
    if kind in ("sequence_type", "optional_type"):
        return f"{kind.removesuffix('_type')}({type_text(getattr(type_, kind).elem_type)})"
    return "no type" if kind is None else type_.SerializeToString(deterministic=True).hex()


def tensor_text(tensor: TensorProto, folder: Path) -> str:
    """Type, shape and a digest of the elements, however stored; for few elements also their values."""
    name = TensorProto.DataType.Name(tensor.data_type).lower()
    text = f"{name}[{','.join(map(str, tensor.dims))}]"
    array = numpy_helper.to_array(tensor, str(folder))
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    shown = f" {array.reshape(-1).tolist()}" if math.prod(array.shape) <= SHOWN else ""
    return f"{text}{shown} #{hashlib.blake2b(content, digest_size=8).hexdigest()}"


def _sparse_text(tensor: onnx.SparseTensorProto, folder: Path) -> str:
    parts = (tensor_text(part, folder) for part in (tensor.values, tensor.indices))
    return f"sparse[{','.join(map(str, tensor.dims))}] {' at '.join(parts)}"


def shown(row: Row) -> str:
    """A row as text."""
    where, operator, name, inputs, outputs, attributes = row
    if operator == "initializer":
        return f"{where}initializer {name}: {attributes}"
    braces = f" {{{attributes}}}" if attributes else ""
    return f"{where}{operator} {name!r} ({', '.join(inputs)}) -> ({', '.join(outputs)}){braces}"

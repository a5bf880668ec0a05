"""Lists the nodes, inputs, outputs and edges of the original model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import helper

from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.graph.walk import all_graphs, graph_attributes, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.counted import counted
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.registry import op_name

LONGEST = 240
"""Characters of an attribute's value that are shown."""

NODE, INPUT, OUTPUT = "node", "input", "output"


@dataclass(frozen=True)
class NetworkEntry:
    """A node, input or output of the model.

    op:      domain::op_type, without ONNX's own domain; "" of an input or output.
    inside:  index of the entry in whose graph the node is, None in the main graph. where: the attribute with that graph.
    holds:   what is in the node's own graphs, in words.
    """

    role: str
    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: str = ""
    inside: int | None = None
    where: str = ""
    holds: str = ""

    @property
    def drawn(self) -> bool:
        """Whether the entry is drawn: inner nodes belong to their outer node, constants to their readers."""
        return self.inside is None and not (self.role == NODE and self.op == "Constant")


@dataclass(frozen=True, eq=False)
class NetworkEntries:
    """All entries of a model, in the order of execution: inputs, each node followed by those inside it, outputs."""

    all: tuple[NetworkEntry, ...]
    model: Model

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of drawn entries whose second reads a value of the first, each once."""
        makers: dict[str, int] = {}
        found: dict[tuple[int, int], None] = {}
        reads = self._reads
        for index, entry in enumerate(self.all):
            if not entry.drawn:
                continue
            for name in entry.inputs if entry.role == OUTPUT else reads.get(index, ()):
                maker = makers.get(name)
                if maker is not None:
                    found[maker, index] = None
            if entry.role != OUTPUT:
                makers.update(dict.fromkeys(filter(None, entry.outputs), index))
        return tuple(found)

    @cached_property
    def _reads(self) -> Mapping[int, tuple[str, ...]]:
        """By index of a node of the main graph, what it reads, in inner graphs too."""
        nodes = iter(self.model.proto.graph.node)
        return {
            index: tuple(dict.fromkeys(read_by(next(nodes))))
            for index, entry in enumerate(self.all)
            if entry.role == NODE and entry.inside is None
        }

    @cached_property
    def types(self) -> Mapping[str, str]:
        """Type and shape by value, as "float32 1×3×height×?"; of an unknown rank the type alone."""
        return types_of(infer_shapes(self.model).proto)

    @cached_property
    def constants(self) -> frozenset[str]:
        """Values that are initializers."""
        return frozenset(t.name for graph in all_graphs(self.model.proto.graph) for t in graph.initializer)


def entries_of(model: Model) -> NetworkEntries:
    """Lists the entries of a model as it was read."""
    graph = model.proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    found = [NetworkEntry(INPUT, v.name, "", (), (v.name,)) for v in graph.input if v.name not in constants]
    _collect(graph, found, None, "")
    found += [NetworkEntry(OUTPUT, v.name, "", (v.name,), ()) for v in graph.output]
    return NetworkEntries(tuple(found), model)


def _collect(graph: onnx.GraphProto, found: list[NetworkEntry], inside: int | None, where: str) -> None:
    for node in graph.node:
        index = len(found)
        found.append(
            NetworkEntry(
                NODE,
                node.name,
                op_name(node),
                tuple(node.input),
                tuple(node.output),
                ", ".join(_attributes(node)),
                inside,
                where,
                "; ".join(_held(node)),
            )
        )
        inner = list(subgraphs(node))
        for name, subgraph in zip(graph_attributes(node) if inner else (), inner, strict=False):
            _collect(subgraph, found, index, name)


def types_of(proto: onnx.ModelProto) -> dict[str, str]:
    """Returns type and shape by value, in words, where they are known."""
    return {name: _typed(type_) for name, type_ in value_types(proto).items()}


def _held(node: onnx.NodeProto) -> Iterator[str]:
    inner = list(subgraphs(node))
    for name, graph in zip(graph_attributes(node) if inner else (), inner, strict=False):
        counts = Counter(op_name(one) for part in all_graphs(graph) for one in part.node)
        kinds = ", ".join(f"{count} {op}" for op, count in counts.most_common(6))
        more = ", ..." if len(counts) > 6 else ""
        total = sum(counts.values())
        yield f"{name}: {counted(total, 'node')}" + (f" ({kinds}{more})" if kinds else "")


def _attributes(node: onnx.NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        yield f"{attribute.name}={_value(attribute)}"


def _value(attribute: onnx.AttributeProto) -> str:
    """A number, a text or a list of them as it is, a tensor by type and shape."""
    if attribute.type == onnx.AttributeProto.TENSOR:
        tensor = attribute.t
        return f"tensor {_dtype(tensor.data_type)} {_shape(tuple(tensor.dims))}"
    if attribute.type in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT, onnx.AttributeProto.STRING):
        value = helper.get_attribute_value(attribute)
        text = repr(value.decode("utf-8", "replace")) if isinstance(value, bytes) else f"{value:g}"
        if isinstance(value, int):
            text = str(value)
    elif attribute.type in (
        onnx.AttributeProto.FLOATS,
        onnx.AttributeProto.INTS,
        onnx.AttributeProto.STRINGS,
    ):
        values = helper.get_attribute_value(attribute)
        shown = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values[:40]]
        text = str(shown) + (f" and {len(values) - 40} more" if len(values) > 40 else "")
    else:
        text = f"({onnx.AttributeProto.AttributeType.Name(attribute.type).lower()})"
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _typed(type_: onnx.TypeProto.Tensor) -> str:
    dtype = _dtype(type_.elem_type)
    if not type_.HasField("shape"):
        return dtype
    dims = type_.shape.dim
    return f"{dtype} {_shape(tuple(map(_size, dims)))}"


def _size(dim: onnx.TensorShapeProto.Dimension) -> str:
    """A number or a symbol; "?" for what is unknown, which onnx's inference calls unk__0 and so on."""
    if dim.HasField("dim_value"):
        return str(dim.dim_value)
    return "?" if not dim.dim_param or dim.dim_param.startswith("unk__") else dim.dim_param


def _dtype(number: int) -> str:
    return dtype_name(number) if number else "?"


def _shape(sizes: tuple[object, ...]) -> str:
    return "×".join(map(str, sizes)) or "scalar"

"""Sets aside what GraphSurgeon cannot represent: removes it before the import, and restores it after the export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_graphsurgeon as gs

A = onnx.AttributeProto

_KNOWN_TYPES = frozenset({A.FLOAT, A.INT, A.STRING, A.TENSOR, A.GRAPH, A.FLOATS, A.INTS, A.STRINGS})
_LISTS = {A.FLOATS: "floats", A.INTS: "ints", A.STRINGS: "strings"}
_NODE_FIELDS = ("doc_string", "overload", "metadata_props", "device_configurations")
_STASH = "_trtsmith_fields"  # on a gs.Node: a NodeProto with the fields that GraphSurgeon has no place for


class RawAttribute:
    """A node attribute of a kind that GraphSurgeon cannot hold, as in the file."""

    def __init__(self, proto: onnx.AttributeProto) -> None:
        self.proto = proto

    def __repr__(self) -> str:
        """The value as shown in messages."""
        return repr(self.proto.s) if self.proto.s else f"<{A.AttributeType.Name(self.proto.type)}>"


class EmptyList(list[Any]):
    """An empty list attribute, which cannot be exported without its type (an onnx.AttributeProto.AttributeType)."""

    def __init__(self, attribute_type: int) -> None:
        super().__init__()
        self.attribute_type = attribute_type


@dataclass(frozen=True)
class SetAside:
    attributes: dict[str, RawAttribute | EmptyList]
    fields: onnx.NodeProto | None

    def put_back(self, node: gs.Node) -> None:
        node.attrs.update(self.attributes)
        if self.fields is not None:
            setattr(node, _STASH, self.fields)


def set_aside_all(proto: onnx.ModelProto) -> Iterator[SetAside]:
    """Removes from every node what GraphSurgeon cannot hold, and returns it in the order of `_all_nodes`."""
    yield from _set_aside_nodes(proto.graph.node)
    for function in proto.functions:
        yield from _set_aside_nodes(function.node)


def _set_aside_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[SetAside]:
    for node in nodes:
        attributes: dict[str, RawAttribute | EmptyList] = {}
        for index in reversed(range(len(node.attribute))):
            attribute = node.attribute[index]
            special = _special_attribute(attribute)
            if special is not None:
                attributes[attribute.name] = special
                del node.attribute[index]
        yield SetAside(attributes, _unknown_fields(node))
        for attribute in node.attribute:
            if attribute.type == A.GRAPH and not attribute.ref_attr_name:
                yield from _set_aside_nodes(attribute.g.node)


def _special_attribute(attribute: onnx.AttributeProto) -> RawAttribute | EmptyList | None:
    known = attribute.type in _KNOWN_TYPES
    if not attribute.ref_attr_name and known:
        if attribute.type in _LISTS and not getattr(attribute, _LISTS[attribute.type]):
            return EmptyList(attribute.type)
        try:
            for text in (attribute.s, *attribute.strings):
                text.decode()
        except UnicodeDecodeError:
            known = False  # GraphSurgeon decodes every string; plugins do keep binary data in them
    if known:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    return RawAttribute(copy)


def _unknown_fields(node: onnx.NodeProto) -> onnx.NodeProto | None:
    kept = onnx.NodeProto()
    for descriptor, value in node.ListFields():
        if descriptor.name in _NODE_FIELDS:
            if isinstance(value, str):
                setattr(kept, descriptor.name, value)
            else:
                getattr(kept, descriptor.name).extend(value)
    return kept if kept.ListFields() else None


def take_unwritable(node: gs.Node) -> dict[str, Any]:
    """Removes from the node the attributes that GraphSurgeon cannot export, and returns them."""
    taken = {
        name: value
        for name, value in node.attrs.items()
        if isinstance(value, RawAttribute) or (isinstance(value, (list, tuple)) and not value)
    }
    for name in taken:
        del node.attrs[name]
    return taken


def complete_node(proto: onnx.NodeProto, node: gs.Node, attributes: dict[str, Any]) -> None:
    """Restores to an exported node what `take_unwritable` removed, and the fields that GraphSurgeon drops."""
    for name, value in attributes.items():
        if isinstance(value, RawAttribute):
            attribute = proto.attribute.add()
            attribute.CopyFrom(value.proto)
            attribute.name = name
        else:  # an empty list that a pass made has no type: nearly all of ONNX's lists are of integers
            proto.attribute.add(name=name, type=getattr(value, "attribute_type", A.INTS))
    fields = getattr(node, _STASH, None)
    if fields is not None:
        proto.MergeFrom(fields)


def clear_special_types(graph: onnx.GraphProto) -> None:
    """Clears the types of a graph's values that GraphSurgeon cannot export (optional, map, sequence)."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        if not _has_tensor_type(value):
            value.ClearField("type")


def restore_graph_fields(graph: onnx.GraphProto, original: onnx.GraphProto) -> None:
    for field in ("quantization_annotation", "metadata_props"):
        getattr(graph, field).extend(getattr(original, field))
    names = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
    by_name = {value.name: value for value in (*original.input, *original.output, *original.value_info)}
    special = {
        name: value
        for name, value in by_name.items()
        if not _has_tensor_type(value) and value.HasField("type")
    }
    for value in (*graph.input, *graph.output):
        if value.name in special and not value.HasField("type"):
            value.CopyFrom(special[value.name])
    written = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    graph.value_info.extend(value for name, value in special.items() if name in names - written)


def restore_function_fields(
    functions: Iterable[onnx.FunctionProto], originals: Iterable[onnx.FunctionProto]
) -> None:
    by_name = {(function.domain, function.name): function for function in originals}
    for function in functions:
        original = by_name.get((function.domain, function.name))
        if original is not None:
            function.value_info.extend(original.value_info)
            function.metadata_props.extend(original.metadata_props)
            if original.overload:
                function.overload = original.overload


def _has_tensor_type(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.HasField("tensor_type"))

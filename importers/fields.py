"""Converts one list of fields both to node attributes for the ONNX parser and to plugin fields.

The parser turns INT(S) into INT32, FLOAT(S) into FLOAT32 and STRING into CHAR, drops what the creator does not list and
wraps integers beyond 32 bits without a word; so fields are checked here, strictly, before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Attr, Field, Fields, Kind, OpDef, Refusal

INT32 = range(-(2**31), 2**31)

_PLUGIN_KIND = {
    Kind.INT: "int32",
    Kind.INTS: "int32",
    Kind.FLOAT: "float32",
    Kind.FLOATS: "float32",
    Kind.STRING: "string",
}


@dataclass(frozen=True)
class FieldValue:
    """One entry of a PluginFieldCollection: kind is "int32", "float32" or "string"."""

    name: str
    kind: str
    values: tuple[int | float, ...] | str


def plugin_attributes(op: OpDef, fields: Fields) -> dict[str, Any]:
    """Returns the attributes of the plugin node: every field, and the two by which the parser finds the creator."""
    attributes: dict[str, Any] = {
        f.name: list(fields[f.name]) if f.kind.is_list else fields[f.name] for f in op.fields
    }
    return attributes | {"plugin_version": op.version, "plugin_namespace": PLUGIN_NAMESPACE}


def plugin_fields(op: OpDef, fields: Fields) -> tuple[FieldValue, ...]:
    """Returns the PluginFieldCollection that makes the same plugin."""
    rendered = []
    for f in op.fields:
        value = fields[f.name]
        values = value if f.kind is Kind.STRING else tuple(value) if f.kind.is_list else (value,)
        rendered.append(FieldValue(f.name, _PLUGIN_KIND[f.kind], values))
    return tuple(rendered)


def fields_of_node(op: OpDef, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the fields from a plugin node's attributes: the inverse of plugin_attributes. KeyError if one is missing."""

    def field(f: Field) -> Any:
        value = attributes[f.name]
        if f.kind.is_list:
            return tuple(value)
        # ONNX keeps strings as bytes.
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    return {f.name: field(f) for f in op.fields}


def check_fields(op: OpDef, fields: Fields) -> Refusal | None:
    """Returns the first field that is missing, unknown, mistyped or out of range, or None."""
    unknown = sorted(set(fields) - {f.name for f in op.fields})
    if unknown:
        names = ", ".join(f.name for f in op.fields) or "none"
        return Refusal(
            f"unknown field {unknown[0]!r}", f"fields of {op.name}: {names}", f"remove {unknown[0]!r}"
        )
    for f in op.fields:
        if f.name not in fields:
            return Refusal(
                f"missing field {f.name!r}", f"{f.name}: {_expected(f)}", f"add attribute {f.name!r}"
            )
        fault = _fault(f, fields[f.name])
        if fault:
            return Refusal(
                f"{f.name} = {fields[f.name]!r}: {fault}", f"{f.name}: {_expected(f)}", f"correct {f.name!r}"
            )
    return None


def _expected(f: Field) -> str:
    text = f"{f.length} {f.kind.value}" if f.length is not None else f.kind.value
    if f.minimum is not None:
        text += f", at least {f.minimum}"
    if f.allowed:
        text += ", one of " + ", ".join(map(repr, f.allowed))
    return text


def _fault(f: Field, value: Any) -> str:
    if f.kind is Kind.STRING:
        return (
            ""
            if isinstance(value, str) and (not f.allowed or value in f.allowed)
            else "not an allowed string"
        )
    if f.kind.is_list:
        if not isinstance(value, tuple):
            return "not a list"
        if f.length is not None and len(value) != f.length:
            return counted(len(value), "element")
    for element in value if f.kind.is_list else (value,):
        if f.kind in (Kind.INT, Kind.INTS):
            if not isinstance(element, int) or isinstance(element, bool):
                return "not an integer"
            if element not in INT32:
                return "does not fit 32 bits, to which the ONNX parser cuts integers"
        elif not isinstance(element, (int, float)) or isinstance(element, bool) or math.isnan(element):
            return "not a number"
        if f.minimum is not None and element < f.minimum:
            return "too small"
        if f.allowed and element not in f.allowed:
            return "not an allowed value"
    return ""


def read_attribute(attr: Attr, raw: Any) -> tuple[Any, Refusal | None]:
    """Returns the value of an alias's attribute, read from the node's attributes.

    A scalar may arrive as a one-element list and a number the reverse, an integer where a float is meant, and bytes for str.
    """
    refusal = Refusal(
        f"attribute {attr.name!r} is {raw!r}",
        f"{attr.name}: {attr.kind.value}"
        + (f" of length {' or '.join(map(str, attr.lengths))}" if attr.lengths else ""),
        f"correct {attr.name!r} where the model is exported",
    )
    if attr.kind is Kind.STRING:
        one = raw[0] if isinstance(raw, (list, tuple)) and len(raw) == 1 else raw
        text = one.decode("utf-8", "replace") if isinstance(one, bytes) else one
        return (text, None) if isinstance(text, str) else (None, refusal)
    elements = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    number = (int,) if attr.kind in (Kind.INT, Kind.INTS) else (int, float)
    if not all(isinstance(element, number) and not isinstance(element, bool) for element in elements):
        return None, refusal
    if attr.kind in (Kind.FLOAT, Kind.FLOATS):
        elements = [float(element) for element in elements]
    if attr.kind.is_list:
        if attr.lengths and len(elements) not in attr.lengths:
            return None, refusal
        return tuple(elements), None
    return (elements[0], None) if len(elements) == 1 else (None, refusal)

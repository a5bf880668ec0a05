"""Checks a node's attributes against a foreign creator's fields, as TensorRT's ONNX parser passes them.

The parser looks for each declared field among the attributes, and drops all others without a word. A field's type is that of
the attribute: INT(S) become int32, whatever their value, FLOAT(S) float32, STRING char, and a TENSOR keeps its own type, but
for those that the parser mislabels.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from trtsmith.importers.counted import counted
from trtsmith.importers.declared.declared_creators import DeclaredCreator, DeclaredField
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.fields import INT32, FieldValue
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES, Refusal

SHAPE_INPUTS = "tensorrt_plugin_shape_input_indices"
OF_PARSER = PLUGIN_ATTRIBUTES | {SHAPE_INPUTS}
"""Attributes that the parser reads itself."""

A = onnx.AttributeProto
_PASSED = {
    A.INT: "int32",
    A.INTS: "int32",
    A.FLOAT: "float32",
    A.FLOATS: "float32",
    A.STRING: "char",
}
_TENSORS = frozenset({"float32", "float16", "bfloat16", "int8", "int32"})
_TENSOR_NAMES = {number: name for name, number in NUMBERS.items()}
_WRITTEN = {"int32": "an INT or INTS attribute", "float32": "a FLOAT or FLOATS attribute", "char": "a STRING"}


def attribute_faults(creator: DeclaredCreator, attributes: Sequence[A]) -> Iterator[Refusal]:
    """Lists the faults that prevent the plugin, or make it differ from the node's attributes."""
    fields = {field.name: field for field in creator.fields}
    given = {attribute.name for attribute in attributes}
    names = ", ".join(fields) or "(none)"
    for attribute in attributes:
        name = attribute.name
        if name in OF_PARSER:
            continue
        if name not in fields:
            near = difflib.get_close_matches(name, [f for f in fields if f not in given], n=1, cutoff=0.5)
            fix = f"did you mean {near[0]!r}? " if near else ""
            yield Refusal(
                f"unknown attribute {name!r}: TensorRT's parser would drop it silently",
                f"the fields of {creator}: {names}",
                f"{fix}{'rename' if near else 'remove'} the attribute where the model is exported",
            )
        else:
            yield from _value_faults(fields[name], attribute)
    for name in sorted(creator.required - given):
        yield Refusal(
            f"the field {name!r} is missing", f"{creator} is not made without it", f"add attribute {name!r}"
        )


def attribute_notes(creator: DeclaredCreator, attributes: Sequence[A]) -> Iterator[str]:
    """Explains how the parser passes attributes where this may surprise, one sentence each."""
    fields = {field.name: field for field in creator.fields}
    given = {attribute.name: attribute for attribute in attributes}
    left = [field for name, field in fields.items() if name not in given and name not in creator.required]
    if left:
        named = ", ".join(
            repr(f.name) + (f" (listed with {_shown(f.default)})" if f.default is not None else "")
            for f in left
        )
        several = len(left) > 1
        yield (
            f"field{'s' * several} {named} of {creator} {'are' if several else 'is'} not given: "
            f"{'their defaults are' if several else 'its default is'} the plugin's own affair"
        )
    for name in (name for name in fields if name in given):
        count = _length(given[name])
        if fields[name].length in (0, 1) and count > 1 and fields[name].type != "char":
            yield (
                f"attribute {name!r} has {counted(count, 'element')}, and {creator} declares a length of "
                f"{fields[name].length}, which is often only a hint"
            )
    if creator.interface in ("IPluginV2", "IPluginV2Ext", "IPluginV2IOExt"):
        yield f"{creator} is an {creator.interface} plugin, which takes inputs of fixed shapes only"


def passed_fields(creator: DeclaredCreator, attributes: Sequence[A]) -> tuple[FieldValue, ...] | None:
    """Returns the fields that the parser gives the creator, or None where one of them is a tensor."""
    given = {attribute.name: attribute for attribute in attributes}
    values = []
    for field in creator.fields:
        attribute = given.get(field.name)
        if attribute is None:
            continue
        if attribute.type not in _PASSED:
            return None
        value = helper.get_attribute_value(attribute)
        if attribute.type == A.STRING:
            values.append(FieldValue(field.name, "string", value.decode("utf-8", "replace")))
        else:
            items = tuple(value) if attribute.type in (A.INTS, A.FLOATS) else (value,)
            values.append(FieldValue(field.name, _PASSED[attribute.type], items))
    return tuple(values)


def values_of(attributes: Sequence[A]) -> Mapping[str, Any]:
    """Returns the attributes' values by name, without those that the parser reads itself."""
    return {a.name: helper.get_attribute_value(a) for a in attributes if a.name not in OF_PARSER}


def _value_faults(field: DeclaredField, attribute: A) -> Iterator[Refusal]:
    passed = _passed_type(attribute)
    declared = field.type
    expected = f"{field.name}: {declared}" + (f" of length {field.length}" if field.length > 1 else "")
    fix = f"correct {field.name!r} where the model is exported"
    kind = A.AttributeType.Name(attribute.type)
    if passed is None:
        what = f"attribute {field.name!r} is a {kind}, which TensorRT's parser does not pass on"
        yield Refusal(what + _tensor_type(attribute), expected, fix)
        return
    if declared not in ("unknown", passed):
        how = _WRITTEN.get(declared)
        yield Refusal(
            f"attribute {field.name!r} = {_shown(helper.get_attribute_value(attribute))} is {kind}, which the plugin "
            f"gets as {passed}",
            expected,
            f"{fix}: write it as {how}" if how else f"declare the field as {passed} in the plugin",
        )
        return
    if attribute.type in (A.INT, A.INTS):
        values = attribute.ints if attribute.type == A.INTS else (attribute.i,)
        wide = [value for value in values if value not in INT32]
        if wide:
            what = f"attribute {field.name!r} has {wide[0]}, which TensorRT's parser would cut to 32 bits"
            yield Refusal(what, expected, fix)
    count = _length(attribute)
    if passed != "char" and (
        (field.length > 1 and count != field.length) or (field.length == 1 and count == 0)
    ):
        yield Refusal(f"attribute {field.name!r} has {counted(count, 'element')}", expected, fix)


def _passed_type(attribute: A) -> str | None:
    """The field type that the parser makes of an attribute; None for what it cannot pass."""
    if attribute.type == A.TENSOR:
        name = _TENSOR_NAMES.get(attribute.t.data_type, "")
        return name if name in _TENSORS else None
    return _PASSED.get(attribute.type)


def _tensor_type(attribute: A) -> str:
    if attribute.type != A.TENSOR:
        return ""
    return f" with elements of {_TENSOR_NAMES.get(attribute.t.data_type, 'another type')}"


def _length(attribute: A) -> int:
    if attribute.type == A.TENSOR:
        count = 1
        for size in attribute.t.dims:
            count *= size
        return count
    value = helper.get_attribute_value(attribute)
    return len(value) if attribute.type in (A.INTS, A.FLOATS) else 1


def _shown(value: Any) -> str:
    if isinstance(value, onnx.TensorProto):
        return f"a tensor {list(value.dims)}"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:57] + "..."

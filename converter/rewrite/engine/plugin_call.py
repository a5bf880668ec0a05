"""Writes the call of one of our plugins, and the casts around it."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.rewrite.engine.writer import Operand, Value, Writer
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Fields, OpDef

_NONE: Fields = {}

_IN_INT32 = frozenset({"bool", "int8"})
"""Types that TensorRT has and plugins with elements of type variable E have not: int32 holds them, in the same order."""


def plugin_outputs(
    w: Writer, op: OpDef, arguments: Sequence[Operand], fields: Fields = _NONE
) -> tuple[Value, ...]:
    """Writes the plugin of `op`, ports in the definition's order."""
    attributes = plugin_attributes(op, fields)
    return w.write(op.name, *arguments, outputs=len(op.outputs), domain=PLUGIN_NAMESPACE, **attributes)


def is_element(dtype: str | None) -> bool:
    """Tells whether `as_element` converts values of this type for a plugin. The types pass legalises other types first."""
    return dtype in TYPE_VARIABLES["E"] or dtype in _IN_INT32


def as_element(w: Writer, data: Value, dtype: str | None) -> Value:
    return w.Cast(data, to="int32") if dtype in _IN_INT32 else data


def from_element(w: Writer, data: Value, dtype: str | None) -> Value:
    """Inverts `as_element`."""
    return w.Cast(data, to=dtype) if dtype in _IN_INT32 else data

"""Writes the call of one of our plugins, and the casts around it."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Fields, OpDef

_NONE: Fields = {}

_IN_INT32 = frozenset({"bool", "int8"})
"""Types that TensorRT has and plugins with elements of type variable E have not: int32 holds them, in the same order."""


def write_plugin(
    w: Writer, results: Sequence[str], op: OpDef, arguments: Sequence[str], fields: Fields = _NONE
) -> None:
    """The plugin of `op`, ports in the definition's order."""
    w.many(f"{PLUGIN_NAMESPACE}::{op.name}", arguments, results, **plugin_attributes(op, fields))


def is_element(dtype: str | None) -> bool:
    """Whether `as_element` makes a plugin's elements of such values. Other types are first legalised by the types pass."""
    return dtype in TYPE_VARIABLES["E"] or dtype in _IN_INT32


def as_element(w: Writer, data: str, dtype: str | None) -> str:
    return w.cast(data, "int32") if dtype in _IN_INT32 else w.do("Identity", data)


def write_from_element(w: Writer, result: str, data: str, dtype: str | None) -> None:
    """The inverse of `as_element`."""
    if dtype is not None and dtype in _IN_INT32:
        w.cast(data, dtype, result)
    else:
        w.do("Identity", data, result=result)

"""A call of one of our plugins, and the casts around it, as the statements that a rule writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import TensorProto as T

from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Fields, OpDef

_NONE: Fields = {}

_IN_INT32: Mapping[str, int] = {"bool": T.BOOL, "int8": T.INT8}
"""Types that TensorRT has and plugins with elements of type variable E have not: int32 holds them, in the same order."""


def plugin_call(results: str, op: OpDef, arguments: str, fields: Fields = _NONE) -> str:
    """`results` = the plugin of `op` on `arguments`, both names with commas between, ports in the definition's order."""
    attributes = ", ".join(f"{name} = {_literal(v)}" for name, v in plugin_attributes(op, fields).items())
    return f"{results} = {PLUGIN_NAMESPACE}.{op.name} <{attributes}> ({arguments})"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def is_element(dtype: str | None) -> bool:
    """Whether `as_element` makes a plugin's elements of such values. Other types are first carried by the types pass."""
    return dtype in TYPE_VARIABLES["E"] or dtype in _IN_INT32


def as_element(result: str, data: str, dtype: str | None) -> str:
    return f"{result} = {f'Cast <to = {T.INT32}>' if dtype in _IN_INT32 else 'Identity'} ({data})"


def from_element(result: str, data: str, dtype: str | None) -> str:
    """The inverse of `as_element`."""
    cast = f"Cast <to = {_IN_INT32[dtype]}>" if dtype is not None and dtype in _IN_INT32 else "Identity"
    return f"{result} = {cast} ({data})"

"""A call of one of our plugins, as the statement that a rule writes."""

from __future__ import annotations

from typing import Any

from importers.fields import plugin_attributes
from importers.opdef import PLUGIN_NAMESPACE, Fields, OpDef

_NONE: Fields = {}


def plugin_call(results: str, op: OpDef, arguments: str, fields: Fields = _NONE) -> str:
    """`results` = the plugin of `op` on `arguments`, both names with commas between, ports in the definition's order."""
    attributes = ", ".join(f"{name} = {_literal(v)}" for name, v in plugin_attributes(op, fields).items())
    return f"{results} = {PLUGIN_NAMESPACE}.{op.name} <{attributes}> ({arguments})"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)

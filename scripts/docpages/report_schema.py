"""Writes the entries of reports, from their published JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from docpages.marks import escaped, markdown_table
from trtsmith.converter.convert.reports import SCHEMA

KINDS = ("check", "convert", "verify", "failed")


def entries() -> str:
    """A table for each kind of report, then one for each object in them."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    definitions: Mapping[str, Any] = schema["$defs"]
    parts = []
    for name in (*KINDS, *(name for name in definitions if name not in KINDS)):
        one = definitions[name]
        rows = [
            (f"`{entry}`", _form(form), escaped(_said(form))) for entry, form in one["properties"].items()
        ]
        parts += [f"{'##' if name in KINDS else '###'} {name}", escaped(one["description"])]
        parts.append(markdown_table(("entry", "form", "what it is"), rows))
    return "\n\n".join(parts)


def _said(form: Mapping[str, Any]) -> str:
    return str(form.get("description", ""))


def _form(form: Mapping[str, Any]) -> str:
    """The type in words: "list of node", "text or null"."""
    if "$ref" in form:
        name = form["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in form:
        return " or ".join(map(_form, form["anyOf"]))
    if "const" in form:
        return f"`{json.dumps(form['const'])}`"
    if "enum" in form:
        return ", ".join(f"`{json.dumps(one)}`" for one in form["enum"])
    kind = form.get("type", "")
    if kind == "array":
        return f"list of {_form(form['items'])}"
    if isinstance(kind, list):
        return " or ".join(map(_word, kind))
    return _word(kind)


def _word(kind: str) -> str:
    return {"string": "text", "boolean": "true or false", "integer": "whole number"}.get(kind, kind)

"""Describes a module's arguments and results as plain data: tuples, lists, dicts and named tuples of tensors.

A structure is a JSON value: {"tensor": NAME}, {"tuple": [...]}, {"list": [...]}, {"dict": {KEY: ...}},
{"named": TYPE, "fields": {FIELD: ...}}, or {"value": CONSTANT} for what is no tensor.
"""

from __future__ import annotations

import keyword
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trtsmith.converter.engine.bundle.manifest import items, mapping, text
from trtsmith.importers.counted import counted

CallStructure = Mapping[str, Any]

_MOST_DEEP = 64
_CONSTANTS = (bool, int, float, str, type(None))


def structure_of(value: Any, leaf: Callable[[Any], CallStructure | None]) -> CallStructure:
    """The structure of a Python value. leaf: of what is a tensor, None for what is not.

    Raises TypeError for what is neither a container that is known here, nor a constant.
    """
    found = leaf(value)
    if found is not None:
        return found
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {name: structure_of(item, leaf) for name, item in zip(value._fields, value, strict=True)}
        return {"named": type(value).__name__, "fields": fields}
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [structure_of(item, leaf) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: structure_of(item, leaf) for key, item in value.items()}}
    if isinstance(value, _CONSTANTS):
        return {"value": value}
    raise TypeError(f"{type(value).__name__} is not a tuple, list, dict with names, or constant")


def leaves_of(structure: CallStructure) -> Iterator[str]:
    """The names of its tensors, in order."""
    if "tensor" in structure:
        yield structure["tensor"]
    for part in _parts(structure).values():
        yield from leaves_of(part)


def _parts(structure: CallStructure) -> Mapping[Any, CallStructure]:
    for kind in ("tuple", "list"):
        if kind in structure:
            return dict(enumerate(structure[kind]))
    parts: Mapping[Any, CallStructure] = structure.get("dict") or structure.get("fields") or {}
    return parts


def filled(structure: CallStructure, tensors: Mapping[str, Any]) -> Any:
    """The structure as a Python value with these tensors. A named tuple is of its fields, and of no class of others."""
    if "tensor" in structure:
        return tensors[structure["tensor"]]
    if "tuple" in structure:
        return tuple(filled(part, tensors) for part in structure["tuple"])
    if "list" in structure:
        return [filled(part, tensors) for part in structure["list"]]
    if "dict" in structure:
        return {key: filled(part, tensors) for key, part in structure["dict"].items()}
    if "named" in structure:
        fields = structure["fields"]
        return namedtuple(structure["named"], fields)(*(filled(part, tensors) for part in fields.values()))
    return structure["value"]


def taken(structure: CallStructure, value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """(name, tensor) for every tensor of the structure, from a value of that form. ValueError says what does not fit."""
    if "tensor" in structure:
        yield structure["tensor"], value
        return
    if "value" in structure:
        if value is not structure["value"] and value != structure["value"]:
            raise ValueError(f"{where} is {value!r}, and the engine was built with {structure['value']!r}")
        return
    parts = _parts(structure)
    if "dict" in structure:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} is a {type(value).__name__}, not a dict")
        if value.keys() != parts.keys():
            raise ValueError(f"{where} has the keys {sorted(map(str, value))}, not {sorted(parts)}")
        for key, part in parts.items():
            yield from taken(part, value[key], f"{where}[{key!r}]")
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"{where} is a {type(value).__name__}, not a sequence of {len(parts)}")
    if len(value) != len(parts):
        raise ValueError(f"{where} has {counted(len(value), 'element')}, not {len(parts)}")
    for index, (part, item) in enumerate(zip(parts.values(), value, strict=True)):
        yield from taken(part, item, f"{where}[{index}]")


def parse_structure(value: Any, depth: int = 0) -> CallStructure:
    """A structure from a file that others may have written. ValueError, TypeError or LookupError for anything else."""
    if depth > _MOST_DEEP:
        raise ValueError("a structure is nested too deeply")
    given = mapping(value)
    kind = next((kind for kind in ("tensor", "tuple", "list", "dict", "named", "value") if kind in given), "")
    if kind == "tensor":
        return {"tensor": text(given["tensor"])}
    if kind in ("tuple", "list"):
        return {kind: [parse_structure(item, depth + 1) for item in items(given[kind])]}
    if kind == "dict":
        return {"dict": {text(k): parse_structure(v, depth + 1) for k, v in mapping(given["dict"]).items()}}
    if kind == "named":
        fields = {k: parse_structure(v, depth + 1) for k, v in mapping(given["fields"]).items()}
        for name in (text(given["named"]), *fields):
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
                raise ValueError(f"{name!r} is not the name of a field")
        return {"named": given["named"], "fields": fields}
    if kind == "value" and isinstance(given["value"], _CONSTANTS):
        return {"value": given["value"]}
    raise ValueError("there is a structure of an unknown kind")

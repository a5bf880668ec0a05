"""Child side of a build: loads plugin libraries and creates every plugin before the parser does.

The parser drops attributes that the creator does not know, and a plugin that dislikes a field fails far from
its cause. Creating each plugin here first, with exactly the fields of its node, lets a wrong one fail with a
message that names node, operator and field.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.engine.builder.build_request import PluginUse
from trtsmith.converter.engine.builder.explain import explain, find_explanation
from trtsmith.converter.engine.builder.flavour import Flavour, field_type
from trtsmith.importers.fields import FieldValue
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem

INIT_FUNCTIONS = ("initLibNvInferPlugins", "initLibNvTensorRTRtxPlugins", "initTrtLlmPlugins")
"""Functions bool(void* logger, char const* namespace) by which libraries of NVIDIA register their creators."""

_DTYPES = {"int32": np.int32, "float32": np.float32}


@dataclass(frozen=True)
class CreatorId:
    name: str
    version: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace or '(no namespace)'}::{self.name} version {self.version}"


def registered(registry: Any) -> tuple[CreatorId, ...]:
    """Lists the creators that a registry has, V2 and V3 alike (all_creators, since TensorRT 10.0)."""
    return tuple(
        sorted(
            (
                CreatorId(creator.name, creator.plugin_version, creator.plugin_namespace)
                for creator in registry.all_creators
            ),
            key=str,
        )
    )


def load_library(registry: Any, path: Path, errors: Callable[[], Sequence[str]]) -> tuple[Problem, ...]:
    """Loads one plugin library, and returns its problems: () if it gave at least one creator.

    errors: gives TensorRT's error messages since it was last called.
    TensorRT's load_library ends the process if a symbol is missing, so the dynamic loader is asked first.
    """
    where = f"plugin library {path}"
    before = set(registered(registry))
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW)
    except OSError as error:
        problem = explain(str(error), where)
        if find_explanation(str(error)) is None:
            problem = Problem(
                f"The library does not load: {error}",
                where,
                "a shared library for this machine",
                "build it for this machine, or correct --plugins",
            )
        return (problem,)
    if set(registered(registry)) - before:
        return ()  # loading alone registered its plugins, as libraries linked with TensorRT may do
    missing = _missing_exports(library)
    init = next((name for name in INIT_FUNCTIONS if "getCreators" in missing and hasattr(library, name)), "")
    if missing and not init:
        return (
            Problem(
                f"The library does not export {' or '.join(missing)}: TensorRT cannot load plugins from it.",
                where,
                "getCreators (or getPluginCreators) and setLoggerFinder, exported with C linkage",
                "export them, or load the library with the tool that it was written for",
            ),
        )
    errors()
    done = True
    if init:
        done = _initialize(library, init)
    else:
        registry.load_library(str(path))  # never raises; what it gives back says less than the registry does
    said = " ".join(errors())
    if done and set(registered(registry)) - before:
        return ()
    if find_explanation(said) is not None:
        return (explain(said, where),)
    return (
        Problem(
            ("The library gave TensorRT no new plugin." if done else f"{init} of the library returned false.")
            + (f" TensorRT says: {said}" if said else ""),
            where,
            "at least one creator that is not registered yet",
            "give each library once; 'trtsmith plugin list LIBRARY' shows what is in it",
        ),
    )


def _initialize(library: ctypes.CDLL, name: str) -> bool:
    """Lets the library register its creators; without a logger, as Python has no pointer to TensorRT's."""
    function = getattr(library, name)
    function.restype, function.argtypes = ctypes.c_bool, (ctypes.c_void_p, ctypes.c_char_p)
    return bool(function(None, b""))


def _missing_exports(library: ctypes.CDLL) -> list[str]:
    missing = []
    if not any(hasattr(library, name) for name in ("getCreators", "getPluginCreators")):
        missing.append("getCreators")
    if not hasattr(library, "setLoggerFinder"):
        missing.append("setLoggerFinder")
    return missing


def create_all(
    flavour: Flavour,
    registry: Any,
    uses: Sequence[PluginUse],
    errors: Callable[[], Sequence[str]],
    announce: Callable[[str], None],
) -> list[Problem]:
    """Creates every plugin once, as the parser will, and discards it. Returns all problems.

    announce is told each node first: a creator that ends the process must not do so namelessly.
    """
    problems: list[Problem] = []
    for use in uses:
        announce(f"creating the plugin of node {use.node!r} ({use.name})")
        problems += _create(flavour, registry, use, errors)
    return problems


def make_fields(flavour: Flavour, fields: Sequence[FieldValue]) -> tuple[list[Any], list[Any]]:
    """Makes (plugin fields, the arrays that they point into): the second must outlive the first.

    A string becomes CHAR with its NUL, as the parser makes it of an attribute.
    """
    trt: Any = flavour.module
    arrays = [_array(field) for field in fields]
    made = [
        trt.PluginField(field.name, array, field_type(flavour, field.kind))
        for field, array in zip(fields, arrays, strict=True)
    ]
    return made, arrays


def _create(
    flavour: Flavour, registry: Any, use: PluginUse, errors: Callable[[], Sequence[str]]
) -> list[Problem]:
    trt: Any = flavour.module
    wanted = CreatorId(use.name, use.version, use.namespace)
    where = f"node {use.node!r} ({use.name})"
    present = registered(registry)
    creator = registry.get_creator(use.name, use.version, use.namespace) if wanted in present else None
    if creator is None:
        return [
            Problem(
                f"No loaded library has the plugin {wanted}.",
                where,
                f"one of those that are registered: {', '.join(map(str, present)) or 'none'}",
                "compile it into trtsmith's own library: set TRTSMITH_LEAVE_OUT to nothing, and build again"
                if use.namespace == PLUGIN_NAMESPACE
                else "give its library with --plugins, or correct the name, plugin_version and plugin_namespace",
            )
        ]
    is_v3 = isinstance(creator, trt.IPluginCreatorV3One)
    if not is_v3 and not flavour.imports_v2:
        return [
            Problem(
                f"The plugin {wanted} is not an IPluginV3 plugin.",
                where,
                f"an IPluginV3 plugin: the ONNX parser of {flavour.title} imports no other",
                "build the plugin's V3 library, or use --flavour tensorrt",
            )
        ]
    problems = _compare_fields(use, [entry.name for entry in creator.field_names], where)
    if problems:
        return problems
    made, arrays = make_fields(flavour, use.fields)
    collection = trt.PluginFieldCollection(made)
    errors()
    phase = (trt.TensorRTPhase.BUILD,) if is_v3 else ()
    try:
        plugin = creator.create_plugin(use.node, collection, *phase)
    except (RuntimeError, ValueError) as error:
        plugin, said = None, str(error)
    else:
        said = " ".join(errors())
    del arrays  # kept until here: the fields point into them
    if plugin is not None:
        return []
    values = ", ".join(f"{field.name}={_shown(field)}" for field in use.fields)
    return [
        Problem(
            f"The creator of {wanted} refused the fields {values}." + (f" It says: {said}" if said else ""),
            where,
            "values that the plugin accepts",
            "correct the node's attributes; 'trtsmith plugin inspect LIBRARY' lists the fields",
        )
    ]


def _compare_fields(use: PluginUse, known: Sequence[str], where: str) -> list[Problem]:
    given = [field.name for field in use.fields]
    problems = [
        Problem(
            f"The plugin {use.name} has no field {name!r}.",
            f"{where}, field {name!r}",
            f"only the fields {', '.join(known) or '(none)'}",
            "remove the attribute, or load the version of the library that has it",
        )
        for name in given
        if name not in known
    ]
    problems += [
        Problem(
            f"The field {name!r} of the plugin {use.name} is missing.",
            f"{where}, field {name!r}",
            f"all of the fields {', '.join(known)}",
            f"give the node the attribute {name!r}",
        )
        for name in known
        if name not in given and not use.partial
    ]
    return problems


def _array(field: FieldValue) -> Any:
    if isinstance(field.values, str):
        return np.frombuffer(field.values.encode() + b"\0", dtype=np.int8)
    return np.asarray(field.values, dtype=_DTYPES[field.kind])


def _shown(field: FieldValue) -> str:
    return repr(field.values) if isinstance(field.values, str) else str(list(field.values))

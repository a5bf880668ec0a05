"""Finds every name of TensorRT's Python API that a module's source uses.

`trt.X.Y` is read as it stands. For methods, the source keeps to a rule that is checked here: an object of
TensorRT's is held in a variable of the name that VARIABLES gives to its class, or in one of OPAQUE.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

VARIABLES: dict[str, tuple[str, ...]] = {
    "builder": ("Builder",),
    "network": ("INetworkDefinition",),
    "config": ("IBuilderConfig",),
    "parser": ("OnnxParser",),
    "parser_error": ("ParserError",),
    "profile": ("IOptimizationProfile",),
    "registry": ("IPluginRegistry",),
    "creator": ("IPluginCreatorV3One", "IPluginCreator"),
    "entry": ("PluginField",),
    "tensor": ("ITensor",),
    "layer": ("ILayer",),
    "cache": ("ITimingCache",),
    "runtime": ("Runtime",),
    "engine": ("ICudaEngine",),
    "context": ("IExecutionContext",),
    "refitter": ("Refitter",),
    "weights_parser": ("OnnxParserRefitter",),
    "serialization": ("ISerializationConfig",),
    "inspector": ("EngineInspector",),
    "runtime_config": ("IRuntimeConfig",),
    "runtime_cache": ("IRuntimeCache",),
    "severity": ("Logger.Severity",),
}
# TensorRT's objects of which no attribute is used.
OPAQUE = frozenset({"logger", "plan", "plugin", "collection", "parsed", "phase"})
# Our own lists, tuples and truths about TensorRT's objects.
PLAIN = frozenset({"made", "types", "plugin_types", "names", "outputs", "is_values", "data", "values"})
_DECLARED = frozenset({"trt", *VARIABLES, *OPAQUE, *PLAIN})


@dataclass
class Use:
    """names: such as "Builder.create_network". undeclared: the variables that break the rule."""

    names: set[str] = field(default_factory=set)
    undeclared: set[str] = field(default_factory=set)


def uses_tensorrt(source: str) -> bool:
    """Only what holds the letters is parsed, for speed."""
    return "trt" in source.replace("trtsmith", "") and any(
        isinstance(node, ast.Name) and node.id == "trt" for node in ast.walk(ast.parse(source))
    )


def find_use(source: str) -> Use:
    """Every name of the API in a module's source, and the variables that hold its objects undeclared."""
    use = Use()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            use.names.update(_api_names(node))
            if isinstance(node.value, ast.Name) and node.value.id in OPAQUE:
                use.undeclared.add(node.value.id)
        elif isinstance(node, ast.ClassDef):
            use.names.update(_overridden(node))
        elif isinstance(node, ast.Assign) and _is_from_tensorrt(node.value):
            use.undeclared.update(_undeclared(node.targets))
        elif isinstance(node, ast.comprehension | ast.For) and _is_from_tensorrt(node.iter):
            use.undeclared.update(_undeclared([node.target]))
        elif (
            isinstance(node, ast.arg)
            and isinstance(node.annotation, ast.Name)
            and node.annotation.id == "Any"
        ):
            use.undeclared.update({node.arg} - _DECLARED)
    return use


def _chain(node: ast.expr) -> list[str]:
    """["trt", "X", "Y"] for trt.X.Y; [] for anything that does not start with a plain variable."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        before = _chain(node.value)
        return [*before, node.attr] if before else []
    return []


def _api_names(node: ast.Attribute) -> list[str]:
    chain = _chain(node)
    if not chain:
        return []
    if chain[0] == "trt":
        return [".".join(chain[1:])]
    if chain[0] in VARIABLES and len(chain) == 2:
        return [f"{owner}.{chain[1]}" for owner in VARIABLES[chain[0]]]
    return []


def _overridden(node: ast.ClassDef) -> list[str]:
    """The methods of a class of ours that override those of its base class in TensorRT."""
    bases = [_chain(base) for base in node.bases]
    methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef) and item.name[0] != "_"]
    return [f"{'.'.join(base[1:])}.{name}" for base in bases if base[:1] == ["trt"] for name in methods]


def _is_from_tensorrt(value: ast.expr) -> bool:
    """Whether an expression is a call on, or an attribute of, trt or one of TensorRT's objects."""
    while isinstance(value, ast.Call):
        value = value.func
    chain = _chain(value)
    return len(chain) > 1 and (chain[0] == "trt" or chain[0] in VARIABLES)


def _undeclared(targets: list[ast.expr]) -> set[str]:
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return names - _DECLARED

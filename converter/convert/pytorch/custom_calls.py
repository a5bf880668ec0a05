"""Finds calls of custom PyTorch operators, maps each to an ONNX node, or suggests the command that adds it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.convert.pytorch.aten_rules import rules_for
from trtsmith.converter.scaffold.names import Names, own_name
from trtsmith.converter.scaffold.torch_command import (
    FUNCTION,
    LISTS_OF_TENSORS,
    PARAMETERS,
    SIZES_OF_VALUES,
    shape_example,
    torch_command,
)
from trtsmith.converter.scaffold.torch_source import is_installed
from trtsmith.importers import torch_ops
from trtsmith.importers.missing_fake import registered_function
from trtsmith.importers.problem import Problem
from trtsmith.importers.torch_aliases import argument_faults, node_of_call, translation_of

_PYTORCHS_OWN = frozenset({"aten", "prim", "prims", "higher_order", "quantized_decomposed", "onnx"})
_SHOWN = 3

Functions = dict[Any, Callable[..., Any]]
"""By operator."""


@dataclass(frozen=True)
class OperatorCall:
    """An operator, and the program's nodes that call it."""

    operator: Any
    nodes: tuple[Any, ...]

    @property
    def name(self) -> str:
        return str(self.operator._schema.name)


def calls_of(program: Any) -> tuple[OperatorCall, ...]:
    """Returns the calls of operators outside PyTorch's namespaces, in order of first appearance."""
    found: dict[Any, list[Any]] = {}
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            operator = node.target
            if isinstance(operator, torch._ops.OpOverload) and operator.namespace not in _PYTORCHS_OWN:
                found.setdefault(operator, []).append(node)
    return tuple(OperatorCall(operator, tuple(nodes)) for operator, nodes in found.items())


def translations_for(
    program: Any, given: Mapping[Any, Callable[..., Any]], name: str
) -> tuple[Functions, Functions, list[Problem]]:
    """Returns translations of the program's custom operators: the user's, ours, or from aliases.

    And rules that write operators in terms of others (aten_rules), and a problem for each unknown one. UsageError: an
    operator that changes an argument in place; PyTorch's older exporter would leave it out.
    """
    table: Functions = {**torch_ops.translations(), **given}
    problems: list[Problem] = []
    calls = calls_of(program)
    rules = rules_for(call.operator for call in calls)
    for call in calls:
        operator = call.operator
        if operator in table or operator in rules or (call.name in _overloads(table)):
            continue
        if operator._schema.is_mutable:
            raise UsageError(_in_place(call, name))
        namespace, _, short = call.name.partition("::")
        node = node_of_call(namespace, short)
        if node is None:
            if not _exporter_knows(operator):
                problems.append(_unknown(call, name))
            continue
        faults = [*argument_faults(operator._schema), *_computed_arguments(call)]
        if faults:
            problems.append(_unusable(call, faults[0], node, name))
        else:
            table[operator] = translation_of(operator._schema, *node)
    return table, rules, problems


def _overloads(table: Mapping[Any, Any]) -> set[str]:
    """Operators that the table holds as packets of all overloads (torch.ops.a.b)."""
    return {key._qualified_op_name for key in table if isinstance(key, torch._ops.OpOverloadPacket)}


def _exporter_knows(operator: Any) -> bool:
    """Whether PyTorch's exporter has its own translation, by a registry that is not public."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        with torch_ops.quiet():
            return bool(ONNXRegistry.from_torchlib().is_registered(operator))
    except Exception:  # another PyTorch: the exporter itself will say what it does not know
        return False


def _computed_arguments(call: OperatorCall) -> list[str]:
    """Arguments that must be attributes but are computed by other nodes."""
    names = {a.name for a in call.operator._schema.arguments if "Tensor" not in str(a.type)}
    order = [argument.name for argument in call.operator._schema.arguments]
    return [
        f"its argument {name!r} is computed, and an attribute is a constant"
        for node in call.nodes
        for name, value in {**dict(zip(order, node.args, strict=False)), **node.kwargs}.items()
        if name in names and any(isinstance(part, torch.fx.Node) for part in _flat(value))
    ]


def _flat(value: Any) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, (list, tuple)) else [value]


def places(program: Any, name: str) -> dict[str, str]:
    """Returns the first place in the module where each operator is called, by its name."""
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            key = node.target._schema.name
            found.setdefault(key, place_of(node, name))
            found.setdefault(f"{key}.{node.target._overloadname}", place_of(node, name))
    return found


def place_of(node: Any, name: str) -> str:
    """Returns the calling submodule with its class, and the line of the user's code."""
    stack = [entry for entry in (node.meta.get("nn_module_stack") or {}).values() if entry[0]]
    line = _line(node.meta.get("stack_trace") or "")
    path, kind = stack[-1] if stack else ("", "")
    kind = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    module = f": module {path!r} ({kind.rpartition('.')[2]})" if path else ""
    return f"{name}{module}{line}"


def _line(trace: str) -> str:
    found = re.findall(r'File "([^"]+)", line (\d+), in', trace)
    mine = [(file, line) for file, line in found if "/torch/" not in file]
    return f", {mine[-1][0]} line {mine[-1][1]}" if mine else ""


def _where(call: OperatorCall, name: str) -> str:
    shown = list(dict.fromkeys(place_of(node, name) for node in call.nodes))
    more = f", and {len(shown) - _SHOWN} more places" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more


def _in_place(call: OperatorCall, name: str) -> Problem:
    arguments = call.operator._schema.arguments
    changed = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return Problem(
        f"{call.name!r} changes {', '.join(map(repr, changed))} in place, which a node of ONNX cannot",
        _where(call, name),
        "operators that return new tensors and leave their arguments as they are",
        "write it with mutates_args=(), return the changed tensor, and use what it returns: "
        f"{changed[0]} = torch.ops.{call.name.replace('::', '.')}({changed[0]})",
    )


def _unknown(call: OperatorCall, name: str) -> Problem:
    namespace, _, short = call.name.partition("::")
    types = {argument.name: str(argument.type) for argument in call.operator._schema.arguments}
    several = [name for name, type_ in types.items() if "Tensor" in type_ and "List" in type_]
    if several:
        return Problem(
            f"no operator definition knows {call.name!r}, whose argument {several[0]!r} is a list of tensors",
            _where(call, name),
            PARAMETERS,
            f"{LISTS_OF_TENSORS}; then this message says how the operator is added",
        )
    if call.nodes[0].meta.get("unbacked_bindings"):
        return Problem(
            f"no operator definition knows {call.name!r}, and the sizes of its outputs depend on values",
            _where(call, name),
            "an operator of `trtsmith ops`, or one whose output sizes follow from those of its inputs",
            SIZES_OF_VALUES,
        )
    names = Names(own_name(short), namespace)
    function = _function_of(call)
    stands = f"; {FUNCTION} stands for the Python function that computes it" * (function == FUNCTION)
    return Problem(
        f"no operator definition knows {call.name!r}, which the module calls",
        _where(call, name),
        "an operator of `trtsmith ops`, of a package (--ops), or one that custom_translation_table translates",
        f"{torch_command(names.name, namespace, _examples(call), function)}; then --ops ./{names.snake} brings the "
        f"package{stands}",
    )


def _function_of(call: OperatorCall) -> str:
    """FILE.py:FUNCTION or MODULE:FUNCTION of the Python function registered as the operator, as --from-torch takes it.

    FUNCTION if PyTorch does not know it, or if its module has no such name.
    """
    function = registered_function(call.name)
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", "")
    loaded = sys.modules.get(module)
    file = Path(getattr(loaded, "__file__", None) or "")
    if not hasattr(loaded, name) or not file.is_file():
        return FUNCTION
    if is_installed(file):
        return f"{module}:{name}"
    return f"{os.path.relpath(file) if file.is_relative_to(Path.cwd()) else file}:{name}"


def _examples(call: OperatorCall) -> dict[str, str]:
    """The arguments of the first call as --example takes them, by parameter; without None and empty lists."""
    node = call.nodes[0]
    names = [argument.name for argument in call.operator._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    texts = {name: _example(value) for name, value in given.items() if value is not None}
    return {name: text for name, text in texts.items() if text}


def _example(value: Any) -> str:
    """A value as --example takes it: the sizes of the module's example for dimensions that are dynamic."""
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val", "")
    if isinstance(value, torch.Tensor):
        # op new computes in float64 whatever the type
        dtype = str(value.dtype).removeprefix("torch.").replace("float64", "float32")
        return shape_example(map(_known_size, value.shape), dtype)
    if isinstance(value, (list, tuple)):
        return ",".join(map(_example, value))
    return str(_known_size(value))


def _known_size(value: Any) -> Any:
    """The number that a dynamic size had in the example; other values unchanged."""
    return value.node.hint if isinstance(value, torch.SymInt) else value


def _unusable(call: OperatorCall, fault: str, node: tuple[str, str], name: str) -> Problem:
    return Problem(
        f"the call of {call.name!r} cannot be written as a node {node[0]}::{node[1]}: {fault}",
        _where(call, name),
        "constants for all arguments that are not tensors",
        "compute the value in Python, or give custom_translation_table a function for the operator",
    )

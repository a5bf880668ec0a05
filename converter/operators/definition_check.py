"""Checks the user's definitions for everything that trtsmith assumes of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import onnx
import onnx.defs

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.operators.call_guard import guarded, said_by_parser
from trtsmith.converter.operators.conformity import nonconforming
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.operators.watched_import import place, what_of
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.importers.counted import counted
from trtsmith.importers.fields import check_fields
from trtsmith.importers.lowering import parse_statements
from trtsmith.importers.opdef import FRAGMENT_OPSET, TYPE_VARIABLES, Alias, Case, OpDef, Port
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

_PLUGIN_NAME = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
"""Of a port or a field."""

DefinitionFault = tuple[str, str, str]
"""What is wrong, what was expected, and what mends it."""


def checked_operators(module: ModuleType, source: OperatorSource) -> tuple[OpDef, ...]:
    """Checks a module's OPERATORS and wraps their functions so that errors name the operator. Raises UsageError with all
    faults.
    """
    found = _listed(module, source)
    where = getattr(module, "__file__", None) or module.__name__
    problems = []
    for op in found:
        faults = list(_types(op)) or list(_faults(op))
        problems += [
            Problem(f"{source.said}: {_called(op.name)}: {what}", where, expected, fix)
            for what, expected, fix in faults
        ]
    if problems:
        raise UsageError(problems)
    return tuple(guarded(op, source.said) for op in found)


def _listed(module: ModuleType, source: OperatorSource) -> tuple[OpDef, ...]:
    where = getattr(module, "__file__", None) or module.__name__
    expected = "OPERATORS = (MY_OPERATOR,), a tuple of trtsmith.importers.opdef.OpDef"
    defined = [name for name, value in vars(module).items() if isinstance(value, OpDef)]
    listed = (
        f"add OPERATORS = ({', '.join(defined)},)" if defined else "add OPERATORS, or name another module"
    )
    try:
        found: Any = getattr(module, "OPERATORS", None)
    except Exception as error:  # the module has a __getattr__
        raise source.problem(what_of(error), place(error, where), expected, listed) from error
    if found is None:
        raise source.problem("the module has no OPERATORS", where, expected, listed)
    if not isinstance(found, (tuple, list)):
        what = f"OPERATORS is {_article(type(found).__name__)}"
        raise source.problem(what, where, expected, "write a tuple, with a comma behind the last operator")
    for index, op in enumerate(found):
        if not isinstance(op, OpDef):
            what = f"OPERATORS[{index}] is {_article(type(op).__name__)}"
            raise source.problem(what, where, expected, "list the definitions themselves")
    if not found:
        raise source.problem("OPERATORS is empty", where, expected, listed)
    return tuple(found)


def _called(name: Any) -> str:
    return name if isinstance(name, str) else "an operator"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOUaeio' else 'a'} {kind}"


def _types(op: OpDef) -> Iterator[DefinitionFault]:
    for part, found, wanted in nonconforming(op, ""):
        fix = "a tuple of one has a comma: (x,)" if wanted.startswith("a tuple") else "correct it"
        yield f"{part.lstrip('.')} is {found}", wanted, fix


def _faults(op: OpDef) -> Iterator[DefinitionFault]:
    if not _PLUGIN_NAME.fullmatch(op.name):
        yield f"its name is {op.name!r}", "a name in CamelCase, such as VoxelMaxPool", "rename the operator"
    elif op.name in native_operators() or onnx.defs.has(op.name):
        what = "it is called as an operator of ONNX, or of TensorRT's parser, which that would import in its place"
        yield (
            what,
            "a name that neither has",
            "rename the operator; an alias may be called so in another domain",
        )
    if op.onnx or op.chain:
        which = "onnx" if op.onnx else "chain"
        what = f"it has {which} = {getattr(op, which)!r}"
        yield what, 'onnx = "" and chain = "", which only rules of trtsmith ask for', f"remove {which}"
    yield from _ports(op)
    yield from _fields(op)
    for alias in op.aliases:
        yield from _alias(op, alias)
    for case in (*op.cases, *op.benchmarks):
        yield from _case(op, case)


def _ports(op: OpDef) -> Iterator[DefinitionFault]:
    if not op.inputs or not op.outputs:
        yield (
            f"it has {counted(len(op.inputs), 'input')} and {counted(len(op.outputs), 'output')}",
            "one of each at least",
            "add a Port",
        )
        return
    ports = (*op.inputs, *op.outputs)
    for name, count in Counter(port.name for port in ports).items():
        if count > 1 or not NAME.fullmatch(name):
            what = f"{count} ports are called {name!r}" if count > 1 else f"a port is called {name!r}"
            yield what, "a name of letters, digits and underscores for each port", "rename it"
    for port in ports:
        if port.type not in TYPE_VARIABLES:
            yield (
                f"port {port.name!r} has type {port.type!r}",
                f"one of {', '.join(TYPE_VARIABLES)}",
                "correct it",
            )
    yield from _order(op.inputs, op.outputs)
    given = {port.type for port in op.inputs}
    for port in op.outputs:
        if port.type not in given and len(TYPE_VARIABLES.get(port.type, ())) > 1:
            what = f"output {port.name!r} has type {port.type}, and no input has"
            yield (
                what,
                "a type variable of an input, by which the type is known, or one of one type",
                "correct it",
            )
    if op.filters is not None:
        names = [port.name for port in op.inputs]
        for name in (op.filters.weights, op.filters.bias):
            if name not in names:
                yield f"filters names the input {name!r}", f"one of {', '.join(names)}", "correct it"


def _order(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Iterator[DefinitionFault]:
    optional = [port.optional for port in inputs]
    if optional != sorted(optional) or optional[0]:
        what = "an optional input comes before one that is not"
        yield what, "inputs that are there, then those that may be", "move it to the end"
    sizes = [port.size for port in outputs]
    if sizes != sorted(sizes) or sizes[0]:
        yield "a size port comes before another output", "the outputs, then their sizes", "move it to the end"
    for port in (port for port in outputs if port.size and (port.type, port.rank) != ("S", 0)):
        yield (
            f"size port {port.name!r} is of {port.type}, rank {port.rank}",
            "type S and rank 0",
            "correct it",
        )


def _fields(op: OpDef) -> Iterator[DefinitionFault]:
    for name, count in Counter(field.name for field in op.fields).items():
        if count > 1 or not NAME.fullmatch(name):
            what = f"{count} fields are called {name!r}" if count > 1 else f"a field is called {name!r}"
            yield what, "a name of letters, digits and underscores for each field", "rename it"
    some = {field.name: field.default for field in op.fields if field.default is not None}
    known = [field for field in op.fields if field.name in some]
    if known and not any(count > 1 for count in Counter(f.name for f in known).values()):
        for field in known:
            refusal = check_fields(_with_field(op, field.name), {field.name: field.default})
            if refusal is not None:
                yield f"default of {refusal.reason}", refusal.expected, "correct the default"


def _with_field(op: OpDef, name: str) -> OpDef:
    return replace(op, fields=(op.field(name),))


def _alias(op: OpDef, alias: Alias) -> Iterator[DefinitionFault]:
    kind = f"alias {alias.op_type!r}"
    if not alias.op_type:
        yield "an alias has no op_type", "what the nodes are called", "fill it in"
    for domain in alias.domains:
        if normalise_domain(domain) == "" and alias.op_type in native_operators():
            what = f"{kind} without a domain is an operator that TensorRT imports itself"
            yield (
                what,
                "an alias in a domain of its own, or of an operator that TensorRT lacks",
                "leave it out",
            )
        elif domain == "ai.onnx":
            yield f"{kind} has the domain 'ai.onnx'", "'' for ONNX's own domain", "write ''"
    yield from _alias_ports(op, alias, kind)
    for part in ("prologue", "epilogue"):
        text = getattr(alias, part)
        if isinstance(text, str) and text:
            try:
                parse_statements(text, FRAGMENT_OPSET)
            except onnx.parser.ParseError as error:
                what = f"{kind} has a {part} that cannot be parsed: {said_by_parser(error)}"
                yield what, "statements in onnx.parser's syntax, one a line: y = Op <a = 1> (x)", "correct it"
    yield from _alias_attributes(op, alias, kind)


def _alias_ports(op: OpDef, alias: Alias, kind: str) -> Iterator[DefinitionFault]:
    names = [name.rstrip("?") for name in alias.inputs]
    missing = [port.name for port in op.inputs if not port.optional and port.name not in names]
    if missing and not alias.prologue:
        what = f"{kind} gives no value to the input {missing[0]!r}"
        yield what, "an input of that name, or a prologue that makes it", "add it to the alias's inputs"
    ports = {port.name for port in op.outputs}
    unmade = [name for name in alias.outputs if name not in ports]
    if unmade and not alias.epilogue:
        what = f"{kind} has the output {unmade[0]!r}, which is no port"
        yield what, f"one of {', '.join(sorted(ports))}, or an epilogue that makes it", "correct its outputs"


def _alias_attributes(op: OpDef, alias: Alias, kind: str) -> Iterator[DefinitionFault]:
    attributes = {attr.name for attr in (*alias.attributes, *alias.constants) if not attr.ignored}
    wanted = {field.name for field in op.fields}
    if alias.fields is Alias.fields and attributes != wanted:
        odd = sorted(attributes ^ wanted)[0]
        what = f"{kind} has {'the attribute' if odd in attributes else 'no attribute'} {odd!r}"
        expected = (
            f"the fields of the plugin as attributes, {', '.join(sorted(wanted)) or 'none'}; or `fields`"
        )
        yield what, expected, "add it, or say in `fields` how fields follow from attributes"


def _case(op: OpDef, case: Case) -> Iterator[DefinitionFault]:
    refusal = check_fields(op, case.fields)
    if refusal is not None:
        yield f"case {case.name!r}: {refusal.reason}", refusal.expected, refusal.fix

"""Makes the functions of a definition say whose they are when they raise: a message, where there would be a traceback."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import onnx

from trtsmith.converter.model.errors import TrtsmithError, UsageError
from trtsmith.converter.operators.watched_import import place, what_of
from trtsmith.importers.lowering import parse_statements
from trtsmith.importers.opdef import Alias, Case, Expansion, Fields, OpDef, Shapes
from trtsmith.importers.problem import Problem

_UNKNOWN = (KeyError, TypeError)
"""What a rule of shapes raises where a shape that it needs is not known: whoever asks takes it for that."""


def guarded(op: OpDef, said: str) -> OpDef:
    """The operator, whose functions raise UsageError for any exception. said: who brings it.

    Those for PyTorch stay as they are: PyTorch has exceptions of its own that it raises through them, and catches.
    """

    def guard(function: Any, what: str) -> Any:
        return _guard(function, f"{said}: {op.name}: {what}") if callable(function) else function

    def guard_rule(function: Any, what: str) -> Any:
        if function is None:
            return None
        strict = guard(function, what)
        loose = _guard(function, f"{said}: {op.name}: {what}", _UNKNOWN)

        @wraps(function)
        def call(fields: Fields, shapes: Shapes) -> Any:
            there = all(port.name in shapes or port.optional for port in op.inputs)
            whole = there and all(isinstance(dim, int) for shape in shapes.values() for dim in shape)
            return (strict if whole else loose)(fields, shapes)

        return call

    def shape(fields: Fields, shapes: Shapes) -> Any:
        found = rule(fields, shapes)
        missing = [
            port.name for port in op.outputs if not isinstance(found, Mapping) or port.name not in found
        ]
        if missing:
            what = f"{said}: {op.name}: its shape rule gives no shape of the output {missing[0]!r}"
            expected = f"a mapping with {', '.join(port.name for port in op.outputs)}"
            raise UsageError(Problem(what, _home(op.shape), expected, "mend the definition"))
        return found

    rule = guard_rule(op.shape, "its shape rule")
    return replace(
        op,
        shape=shape,
        check=guard(op.check, "its check"),
        reference=guard(op.reference, "its reference"),
        expand=_parsed(guard(op.expand, "its expansion"), f"{said}: {op.name}: its expansion"),
        bounds=guard_rule(op.bounds, "its bounds"),
        work=guard_rule(op.work, "its work"),
        aliases=tuple(_alias(alias, guard) for alias in op.aliases),
        cases=tuple(_case(case, guard) for case in op.cases),
        benchmarks=tuple(_case(case, guard) for case in op.benchmarks),
    )


def _alias(alias: Alias, guard: Callable[..., Any]) -> Alias:
    parts = {part: getattr(alias, part) for part in ("when", "guard", "fields", "prologue", "epilogue")}
    return replace(
        alias,
        **{part: guard(value, f"{part!r} of the alias {alias.op_type!r}") for part, value in parts.items()},
    )


def _parsed(function: Any, what: str) -> Any:
    """The function, whose text is ONNX statements: UsageError where it is not."""

    @wraps(function)
    def call(expansion: Expansion) -> str:
        text: str = function(expansion)
        try:
            parse_statements(text, expansion.opset)
        except onnx.parser.ParseError as error:
            expected = "statements in onnx.parser's syntax, one a line: y = Op <attribute = 1> (x)"
            problem = Problem(
                f"{what} cannot be parsed: {said_by_parser(error)}",
                _home(function),
                expected,
                "mend the definition",
            )
            raise UsageError(problem) from error
        return text

    return call


def said_by_parser(error: Exception) -> str:
    """What onnx.parser says, which it gives as bytes, in a line."""
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return " ".join(text.split())[:500]


def _home(function: Any) -> str:
    """File and line where the function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code is not None else repr(function)


def _case(case: Case, guard: Callable[..., Any]) -> Case:
    return replace(case, inputs=guard(case.inputs, f"the inputs of its case {case.name!r}"))


def _guard(
    function: Callable[..., Any], what: str, passed: tuple[type[Exception], ...] = ()
) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            if isinstance(error, (TrtsmithError, *passed)) or type(error).__module__.startswith("torch"):
                raise
            said = f"{what} raises {what_of(error)}"
            where = place(error, getattr(function, "__module__", ""))
            fix = "mend the definition, or leave its package out"
            raise UsageError(Problem(said, where, "a result", fix)) from error

    return call

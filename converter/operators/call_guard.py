"""Makes the functions of a definition say whose they are when they raise: a message, where there would be a traceback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from trtsmith.converter.model.errors import TrtsmithError, UsageError
from trtsmith.converter.operators.watched_import import place, what_of
from trtsmith.importers.opdef import Alias, Case, Fields, OpDef, Shapes
from trtsmith.importers.problem import Problem

_UNKNOWN = (KeyError, TypeError)
"""What a rule of shapes raises where a shape that it needs is not known: whoever asks takes it for that."""


def guarded(op: OpDef, said: str) -> OpDef:
    """The operator, whose functions raise UsageError for any exception. said: who brings it."""

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

    return replace(
        op,
        shape=guard_rule(op.shape, "its shape rule"),
        check=guard(op.check, "its check"),
        reference=guard(op.reference, "its reference"),
        expand=guard(op.expand, "its expansion"),
        bounds=guard_rule(op.bounds, "its bounds"),
        torch_reference=guard(op.torch_reference, "its torch_reference"),
        work=guard_rule(op.work, "its work"),
        aten={name: guard(rule, f"its rule for aten::{name}") for name, rule in op.aten.items()},
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
            if isinstance(error, (TrtsmithError, *passed)):
                raise
            said = f"{what} raises {what_of(error)}"
            where = place(error, getattr(function, "__module__", ""))
            fix = "mend the definition, or leave its package out"
            raise UsageError(Problem(said, where, "a result", fix)) from error

    return call

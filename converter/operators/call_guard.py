"""Turns exceptions and wrong results of a definition's functions into messages that name the operator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.operators.watched_import import place, what_of
from trtsmith.importers.builder import Value
from trtsmith.importers.dims import Unknown
from trtsmith.importers.lowering import parse_statements
from trtsmith.importers.opdef import (
    FRAGMENT_OPSET,
    Alias,
    Case,
    Expansion,
    Fields,
    OpDef,
    Refusal,
    Shapes,
    Work,
)

_UNKNOWN = (KeyError, TypeError)
"""What a shape rule raises if a shape that it needs is unknown; callers read it as that."""

_FIX = "correct the definition, or remove its package"

Fits = Callable[[Any], bool]
"""Whether a result is valid."""


class _Guard:
    """Wraps the functions of one operator. said: who brings it."""

    def __init__(self, op: OpDef, said: str) -> None:
        self._op = op
        self._said = f"{said}: {op.name}"

    def __call__(
        self,
        function: Any,
        part: str,
        fits: Fits = lambda _result: True,
        expected: str = "a result",
        passed: tuple[type[Exception], ...] = (),
        traced: bool = True,
    ) -> Any:
        """The function; UsageError for any exception but `passed`, and for a result that does not fit.

        traced: whether PyTorch may trace it, whose own exceptions pass, too.
        """
        if not callable(function):
            return function
        what = f"{self._said}: {part}"

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                result = function(*arguments, **named)
            except Exception as error:
                if isinstance(error, (TrtsmithError, *passed)) or (
                    traced and type(error).__module__.startswith("torch")
                ):
                    raise
                where = place(error, getattr(function, "__module__", ""))
                raise UsageError(
                    f"{what} raises {what_of(error)}",
                    where,
                    "code that runs without an exception",
                    f"{'write the function at' if isinstance(error, NotImplementedError) else 'correct'} "
                    f"{where.partition(': ')[0]}, or remove the package",
                ) from error
            if not fits(result):
                text = f"{what} gives {type(result).__name__} {result!r}"[:500]
                raise UsageError(text, home(function), expected, _FIX)
            return result

        return call

    def rule(self, function: Any, part: str, fits: Fits, expected: str, partly: Fits | None = None) -> Any:
        """A function of shapes, which may raise _UNKNOWN where it is not told all of them. partly: what will do then."""
        strict = self(function, part, fits, expected)
        loose = self(function, part, partly or fits, expected, _UNKNOWN)
        if not callable(function):
            return function

        @wraps(function)
        def call(fields: Fields, shapes: Shapes) -> Any:
            there = all(port.name in shapes or port.optional for port in self._op.inputs)
            whole = there and all(isinstance(dim, int) for shape in shapes.values() for dim in shape)
            return (strict if whole else loose)(fields, shapes)

        return call

    def nodes(self, function: Any, part: str, fits: Fits, expected: str) -> Any:
        """A function that gives ONNX statements, or values of a Builder that fit."""
        if not callable(function):
            return function
        body_of = self(
            function,
            part,
            lambda result: isinstance(result, str) or fits(result),
            f"a text, or {expected}",
            traced=False,
        )

        @wraps(function)
        def call(asked: Any) -> Any:
            body = body_of(asked)
            if isinstance(body, str):
                opset = asked.opset if isinstance(asked, Expansion) else FRAGMENT_OPSET
                self._parse(body, part, opset, function)
            return body

        return call

    def alias(self, alias: Alias) -> Alias:
        name = alias.op_type
        whole: dict[str, Any] = {
            "when": self(alias.when, f"'when' of the alias {name!r}"),
            "guard": self(
                alias.guard,
                f"'guard' of the alias {name!r}",
                lambda result: result is None or isinstance(result, Refusal),
                "a Refusal, or None",
            ),
            "fields": self(
                alias.fields,
                f"'fields' of the alias {name!r}",
                lambda result: isinstance(result, Mapping),
                "a mapping of fields",
            ),
        }
        for part in ("prologue", "epilogue"):
            whole[part] = self.nodes(
                getattr(alias, part),
                f"{part!r} of the alias {name!r}",
                lambda result: isinstance(result, Mapping) and _are_values(result.values()),
                "Values of a Builder by name",
            )
        return replace(alias, **whole)

    def _parse(self, text: str, part: str, opset: int, function: Any) -> None:
        try:
            parse_statements(text, opset)
        except onnx.parser.ParseError as error:
            what = f"{self._said}: {part} cannot be parsed: {said_by_parser(error)}"
            expected = "statements in onnx.parser's syntax, one a line: y = Op <attribute = 1> (x)"
            raise UsageError(what, home(function), expected, _FIX) from error

    def case(self, case: Case) -> Case:
        names = [port.name for port in self._op.inputs]
        needed = {port.name for port in self._op.inputs if not port.optional}
        inputs = self(
            case.inputs,
            f"the inputs of its case {case.name!r}",
            lambda result: _arrays(result) and needed <= result.keys() <= {*names},
            f"numpy arrays by the names of inputs: {', '.join(names)}",
        )
        return replace(case, inputs=inputs)


def guarded(op: OpDef, said: str) -> OpDef:
    """Wraps the operator's functions: exceptions and invalid results become UsageError. said: the package, for messages.

    Those for PyTorch stay as they are: PyTorch has exceptions of its own that it raises through them, and catches.
    """
    guard = _Guard(op, said)
    outputs = [port.name for port in op.outputs]
    sizes = [port.name for port in op.sizes]
    return replace(
        op,
        shape=guard.rule(
            op.shape,
            "its shape rule",
            lambda result: _shapes(result, outputs),
            f"a tuple of whole numbers for each of {', '.join(outputs)}",
            lambda result: isinstance(result, Mapping) and _shapes(result, list(result)),
        ),
        check=guard(
            op.check,
            "its check",
            lambda result: isinstance(result, Sequence) and all(isinstance(each, str) for each in result),
            "a list of sentences",
        ),
        reference=guard(
            op.reference,
            "its reference",
            lambda result: _arrays(result) and result.keys() >= {*outputs},
            f"a numpy array for each of {', '.join(outputs)}",
        ),
        expand=guard.nodes(
            op.expand,
            "its expansion",
            lambda result: _are_values(result if isinstance(result, Sequence) else [result], len(outputs)),
            "a Value of a Builder for each output",
        ),
        bounds=guard.rule(
            op.bounds,
            "its bounds",
            lambda result: isinstance(result, Mapping) and result.keys() == {*sizes},
            f"a number for each of the size ports: {', '.join(sizes) or 'there are none'}",
        ),
        work=guard.rule(op.work, "its work", lambda result: isinstance(result, Work), "a Work"),
        aliases=tuple(map(guard.alias, op.aliases)),
        cases=tuple(map(guard.case, op.cases)),
        benchmarks=tuple(map(guard.case, op.benchmarks)),
    )


def _are_values(results: Collection[Any], count: int | None = None) -> bool:
    return count in (None, len(results)) and all(isinstance(result, Value) for result in results)


def _arrays(result: Any) -> bool:
    kinds = (np.ndarray, np.generic)
    return isinstance(result, Mapping) and all(isinstance(array, kinds) for array in result.values())


def _shapes(result: Any, names: Sequence[str]) -> bool:
    return isinstance(result, Mapping) and all(
        isinstance(result.get(name), (tuple, list)) and all(map(_is_dim, result[name])) for name in names
    )


def _is_dim(dim: Any) -> bool:
    of_torch = type(dim).__module__.startswith("torch")
    return of_torch or (isinstance(dim, (int, Unknown)) and not isinstance(dim, bool))


def said_by_parser(error: Exception) -> str:
    """Puts the error of onnx.parser, which raises it as bytes, on one line."""
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return " ".join(text.split())[:500]


def home(function: Any) -> str:
    """Returns file and line where the function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code is not None else repr(function)

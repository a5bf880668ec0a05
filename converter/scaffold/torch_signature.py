"""Reads the signature of a function of PyTorch tensors: which parameters are ports, which are fields."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.torch_command import LISTS_OF_TENSORS, PARAMETERS
from trtsmith.importers.opdef import Kind, Value
from trtsmith.importers.problem import Problem

_SHAPE = re.compile(r"(\d+(?:x\d+)*)(?::(\w+))?")
_DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "bool")
_SCALARS = {int: Kind.INT, bool: Kind.INT, float: Kind.FLOAT, str: Kind.STRING}
_LISTS = {int: Kind.INTS, float: Kind.FLOATS}


@dataclass(frozen=True)
class Tensor:
    """A parameter that is a tensor, with the shape and type of its example."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Scalar:
    """A parameter that is a field. value: in the example. default: of the signature; None: required."""

    name: str
    kind: Kind
    value: Value
    default: Value | None
    boolean: bool = False


@dataclass(frozen=True)
class Signature:
    """Parameters in their order. left_out: optional tensors without an example, which the operator does not have.

    guessed: parameters without annotation and default whose example is a whole number, so that they are taken as one.
    order: tensors as a node has them as inputs, those left out before others included.
    """

    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    left_out: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()


def signature_of(function: Callable[..., Any], examples: Mapping[str, str], where: str) -> Signature:
    """Reads the signature. Raises UsageError with all parameters that are unknown or impossible for a plugin.

    examples: the text of --example by the parameter's name: "2x3x4", "5:int64", "3", "0.5", "3,3".
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        expected = "a function with a signature that Python knows"
        raise UsageError(
            f"the signature cannot be read: {error}", where, expected, "wrap it in a function of your own"
        ) from error
    hints = _hints(function)
    unknown = [name for name in examples if name not in parameters]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        one.name for one in parameters.values() if one.default is one.empty and one.kind not in variadic
    ]
    bare = [name for name in required if name not in examples]
    meant = dict(zip(unknown, bare, strict=False))
    problems = [
        Problem(
            f"the function has no parameter {name!r}",
            f"--example {name}={examples[name]}",
            f"one of its own names: {', '.join(parameters)}",
            f"--example {meant[name]}={examples[name]}" if name in meant else "leave it out",
        )
        for name in unknown
    ]
    returned = hints.get("return")
    if typing.get_origin(returned) is list and _is_tensor(typing.get_args(returned)[0]):
        what, expected = "the function returns a list of tensors", "a tensor, or a tuple of several"
        fix = "return a tuple, and annotate it so: -> tuple[torch.Tensor, torch.Tensor]"
        problems.append(Problem(what, where, expected, fix))
    tensors: list[Tensor] = []
    scalars: list[Scalar] = []
    left_out: list[str] = []
    for parameter in parameters.values():
        if parameter.name in meant.values():
            continue
        try:
            made = _parameter(parameter, hints.get(parameter.name), examples.get(parameter.name), where)
        except UsageError as error:
            problems += error.problems
            continue
        if made is None:
            left_out.append(parameter.name)
        else:
            (tensors if isinstance(made, Tensor) else scalars).append(made)  # type: ignore[arg-type]
    if not problems and not tensors:
        problems.append(
            Problem(
                "no parameter is a tensor",
                where,
                "at least one",
                "annotate it with torch.Tensor, or --example x=2x3",
            )
        )
    if problems:
        raise UsageError(problems)
    own = {tensor.name for tensor in tensors}
    last = max((at for at, name in enumerate(parameters) if name in own), default=-1)
    order = tuple(name for name in [*parameters][: last + 1] if name in own.union(left_out))
    return Signature(tuple(tensors), tuple(scalars), tuple(left_out), order, _guessed(scalars, hints))


def _guessed(scalars: Sequence[Scalar], hints: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of those that only the example makes whole numbers."""
    return tuple(s.name for s in scalars if s.kind is Kind.INT and s.default is None and s.name not in hints)


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that is known to type checkers alone
        return {
            name: value
            for name, value in getattr(function, "__annotations__", {}).items()
            if not isinstance(value, str)
        } | {
            name: _TensorHint
            for name, value in getattr(function, "__annotations__", {}).items()
            if isinstance(value, str) and value.split(".")[-1] == "Tensor"
        }


class _TensorHint:
    """Stands for torch.Tensor where an annotation is text."""


def _parameter(
    parameter: inspect.Parameter, hint: Any, example: str | None, where: str
) -> Tensor | Scalar | None:
    name, default = parameter.name, parameter.default
    has_default = default is not inspect.Parameter.empty
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise UsageError(
            f"parameter {name!r} takes any number of arguments",
            where,
            "parameters that can be counted",
            "give the function a fixed list of parameters",
        )
    plain, optional = _without_none(hint)
    if _is_tensor(plain) or (plain is None and example is not None and _is_shape(example, default)):
        if example is None and optional and (default is None or not has_default):
            return None
        return _tensor(name, example, where)
    if any(_is_tensor(_without_none(part)[0]) for part in typing.get_args(plain)):
        raise UsageError(f"parameter {name!r} is a list of tensors", where, PARAMETERS, LISTS_OF_TENSORS)
    kind, boolean = _kind_of(plain, default if has_default else None, example)
    if kind is None:
        raise UsageError(
            f"the type of parameter {name!r} is unknown",
            where,
            "torch.Tensor, int, float, bool, str, or a list of int or of float",
            f"annotate it, or give an example: --example {name}=2x3x4 for a tensor, --example {name}=3 for a number",
        )
    value = (
        _value(name, kind, example, where)
        if example is not None
        else _plain(default)
        if has_default
        else None
    )
    if value is None:
        raise UsageError(
            f"parameter {name!r} has no example value",
            where,
            "a default, or an example",
            f"--example {name}={'3,3' if kind.is_list else '3'}",
        )
    return Scalar(name, kind, value, _plain(default) if has_default else None, boolean)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without None, and whether None was in it."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        return (inner[0] if len(inner) == 1 else None), len(inner) < len(typing.get_args(hint))
    return hint, False


def _is_tensor(hint: Any) -> bool:
    return hint is _TensorHint or getattr(hint, "__name__", "") == "Tensor"


def _is_shape(example: str, default: Any) -> bool:
    said = "x" in example or ":" in example
    return said and _SHAPE.fullmatch(example) is not None and default is inspect.Parameter.empty


def _tensor(name: str, example: str | None, where: str) -> Tensor:
    match = _SHAPE.fullmatch(example or "")
    if match is None or (match[2] or "float32") not in _DTYPES or 0 in map(int, match[1].split("x")):
        what = (
            f"parameter {name!r} is a tensor without a shape"
            if example is None
            else (f"{example!r} is not a shape")
        )
        expected = f"sizes with x between them, and a type if it is not float32: one of {', '.join(_DTYPES)}"
        raise UsageError(what, where, expected, f"--example {name}=2x3x4, or --example {name}=5:int64")
    return Tensor(name, tuple(map(int, match[1].split("x"))), match[2] or "float32")


def _kind_of(hint: Any, default: Any, example: str | None) -> tuple[Kind | None, bool]:
    if hint in _SCALARS:
        return _SCALARS[hint], hint is bool
    arguments = [part for part in typing.get_args(hint) if part is not ...]
    if arguments and len(set(arguments)) == 1 and arguments[0] in _LISTS:
        return _LISTS[arguments[0]], False
    if hint is not None and hint not in (list, tuple):
        return None, False
    if type(default) in _SCALARS:
        return _SCALARS[type(default)], isinstance(default, bool)
    if isinstance(default, (tuple, list)) and default and type(default[0]) in _LISTS:
        return _LISTS[type(default[0])], False
    if default is None and example is not None:
        number = Kind.INTS if "," in example else Kind.INT
        whole = all(part.strip().lstrip("-").isdigit() for part in example.split(","))
        return (number if whole else Kind.FLOATS if "," in example else Kind.FLOAT), False
    return None, False


def _value(name: str, kind: Kind, example: str, where: str) -> Value:
    try:
        if kind is Kind.STRING:
            return example
        number: Callable[[str], Any] = int if kind in (Kind.INT, Kind.INTS) else float
        values = [number({"True": "1", "False": "0"}.get(part, part)) for part in example.split(",")]
        if not kind.is_list and len(values) != 1:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{example!r} is no {kind.value}",
            f"--example {name}={example}",
            f"an example of {kind.value}",
            "correct it",
        ) from None
    return tuple(values) if kind.is_list else values[0]


def _plain(default: Any) -> Value | None:
    """A default as a field has it: lists as tuples, True as 1."""
    if isinstance(default, bool):
        return int(default)
    if isinstance(default, Sequence) and not isinstance(default, str):
        return tuple(default)
    return default if isinstance(default, (int, float, str)) else None

"""Checks the types of the public API's arguments, and shows the expected ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from shlex import quote
from typing import Any, ParamSpec, TypeVar, get_args

from trtsmith.argument_words import naming_arguments
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.declared import Options, options_of
from trtsmith.converter.base.options.kinds import OptionKind, PrecisionName, kind_of, precision_of
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.importers.problem import Problem

P = ParamSpec("P")
T = TypeVar("T")
_MOST_SHOWN = 60


def checked_types(options: Options = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes the decorated function raise UsageError for arguments of other types than its annotations.

    None is an option that is not given, unless its annotation says None: verify=None.

    options: those that stand for its `**options`.
    """

    def checking(function: Callable[P, T]) -> Callable[P, T]:
        spelled = _spelled_out(signature(function), options)
        kinds = {name: kind_of(one.annotation) for name, one in spelled.parameters.items()}
        kinds |= {option.name: option.kind for option in options_of(options)}
        flags = _names_of_flags(options)

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            for name in list(named):
                if name not in spelled.parameters:
                    told = _unknown(function.__name__, name, list(spelled.parameters))
                    raise TypeError(_with_model(told, [*arguments[:1], named.get("model")]))
                if named[name] is None and _stands_for_default(spelled.parameters[name]):
                    del named[name]
            try:
                given = spelled.bind(*arguments, **named).arguments
            except TypeError as error:
                told = f"help(trtsmith.{function.__name__}) lists them"
                raise TypeError(f"trtsmith.{function.__name__}(): {error}; {told}") from None
            problems = [
                problem
                for name, value in given.items()
                if (problem := _fault(name, value, spelled.parameters[name].annotation, kinds[name]))
            ]
            if problems:
                raise UsageError(problems)
            return naming_arguments(kinds, flags, lambda: function(*arguments, **named))

        call.__signature__ = spelled  # type: ignore[attr-defined]
        return call

    return checking


def _names_of_flags(options: Options) -> dict[str, str]:
    """By flag with a value, without its dashes, the option."""
    return {
        name.lstrip("-"): option.name
        for option in options_of(options)
        for flag in option.flags
        for name in flag.names
        if "action" not in flag.arguments
    }


def _stands_for_default(parameter: Parameter) -> bool:
    """Whether None is no value of its own for it."""
    return parameter.default is not Parameter.empty and not parameter.annotation.endswith("None")


_RUNTIME = dict.fromkeys(("server", "target"), "runtime")
"""Other names for the argument of `bundle`."""

_NAMES = "convert the file of torch.onnx.export, which takes {0}: trtsmith.convert(file)"
_ELSEWHERE = {
    ("convert", "input_names"): _NAMES.format("input_names"),
    ("convert", "output_names"): _NAMES.format("output_names"),
    (
        "convert",
        "report",
    ): "print(done) shows the result; done.verdict.to_json() and the manifest have it as data",
    ("verify", "report"): "print(verdict) shows it; verdict.to_json() has it as data",
    ("check", "report"): "the result has all of it: analysis.plan.nodes, analysis.problems",
    (
        "tune",
        "plan",
    ): "output names the engine's file; `trtsmith tune MODEL --plan` shows what would be tried",
}
"""By function and argument: how else one gets it."""


def _unknown(function: str, name: str, known: Sequence[str]) -> str:
    near = _RUNTIME.get(name) if "runtime" in known else None
    near = near or nearest(name, known)
    precision = precision_of(name)
    precise = precision in get_args(PrecisionName)
    if precise:
        near = f'precision="{precision}"'
    if "options" in known and near not in known:  # those of `convert`
        near = f'options={{"precision": "{precision}"}}' if precise else f'options={{"{name}": ...}}'
    told = f"did you mean {near}?" if near else f"help(trtsmith.{function}) lists them"
    told = _ELSEWHERE.get((function, name), told)
    return f"trtsmith.{function}() has no argument {name!r}; {told}"


def _with_model(told: str, given: Sequence[object]) -> str:
    """The text with the model's file, if one of the arguments is its path, for MODEL."""
    file = next((one for one in given if isinstance(one, (str, os.PathLike))), "MODEL")
    return told.replace("MODEL", quote(os.fspath(file)))


def _spelled_out(found: Signature, options: Options) -> Signature:
    """The signature, with the options in the place of `**options`."""
    parameters = [one for one in found.parameters.values() if one.kind is not one.VAR_KEYWORD]
    parameters += [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.annotation)
        for option in options_of(options)
    ]
    return found.replace(parameters=parameters)


def _fault(name: str, value: Any, annotation: str, kind: OptionKind | None) -> Problem | None:
    if kind is None or kind.takes(value) or (value is None and annotation.endswith("None")):
        return None
    text = repr(value)
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
    what = f"{name} is of the type {type(value).__name__}"
    expected = f"{kind.expected}; or None" if annotation.endswith("None") else kind.expected
    example = kind.meant(value) or kind.example
    return Problem(what, f"{name}={shown}", expected, f"write it as {name}={example}")

"""Declares each option once: its Python type, and its flag, help, default and choices on the command line.

A block is a TypedDict whose values are of a type, or Annotated with that and a Flag. A docstring without a full stop is the
title of its flags in a command's help. The options of a command are a TypedDict of blocks, in the order in which its help
has them: argparse's flags, the keywords of the API's function, the keys of a zoo, and the pages of both references come from
it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature, signature, unwrap
from types import SimpleNamespace
from typing import Annotated, Any

from typing_extensions import TypedDict

from trtsmith.converter.model.options.kinds import SPECS, Kind, Paths, Progress, kind_of
from trtsmith.converter.operators.sources import GROUP, LEAVE_OUT, VARIABLE


class Flag:
    """The command-line form of an option, as far as it does not follow from its type.

    help:    {} in it is what the command says of the option.
    common:  whether the short help of a command with many flags shows it; --help-all shows all.
    default: None: that of the kind.
    alone:   a name that flags share of which a command line may have one.
    kind:    None: that of the annotation.
    more:    arguments of argparse's add_argument, in the place of those that the kind asks for.
    """

    def __init__(
        self,
        help: str,
        metavar: str = "",
        *names: str,
        default: Any = None,
        alone: str = "",
        common: bool = False,
        kind: Kind | None = None,
        **more: Any,
    ) -> None:
        self.names, self.default, self.alone, self.common, self.kind = names, default, alone, common, kind
        self.arguments = {"help": help, **({"metavar": metavar} if metavar else {}), **more}


@dataclass(frozen=True)
class Option:
    """An option of a block. type: as it is written there. flags: its own, and others that only the terminal has."""

    name: str
    type: str
    flags: tuple[Flag, ...]

    @property
    def kind(self) -> Kind:
        given = self.flags[0].kind if self.flags else None
        return given or kind_of(self.type) or Kind()

    @property
    def default(self) -> Any:
        given = self.flags[0].default if self.flags else None
        return (None if self.type.endswith("| None") else self.kind.default) if given is None else given


def title_of(block: type) -> str:
    """The title of the flags of a block: its docstring, where that is no sentence."""
    said = (block.__doc__ or "").strip()
    return "" if said.endswith(".") else said


def _bases(block: type) -> tuple[type, ...]:
    return tuple(base for base in getattr(block, "__orig_bases__", ()) if base is not TypedDict)


def blocks_of(options: type) -> Iterator[type]:
    """The blocks of which the options of a command are made, in order, and itself; one with a title is whole."""
    for base in () if title_of(options) else _bases(options):
        yield from blocks_of(base)
    yield options


@cache
def options_of(block: type) -> tuple[Option, ...]:
    """The options of a block, with those of the blocks that it is made of."""
    found = {option.name: option for base in _bases(block) for option in options_of(base)}
    names = vars(sys.modules[block.__module__])
    for name, hint in block.__annotations__.items():
        if name not in found:
            tree = ast.parse(hint.__forward_arg__, mode="eval")
            flags = getattr(eval(compile(tree, name, "eval"), names), "__metadata__", ())
            written = tree.body.slice.elts[0] if flags else tree.body
            found[name] = Option(name, ast.unparse(written), flags)
    return tuple(found.values())


def with_defaults(options: type, values: Mapping[str, Any]) -> SimpleNamespace:
    """All options of a command, as the command line has them: those of `values`, and the defaults of the others."""
    return SimpleNamespace(**{option.name: option.default for option in options_of(options)} | dict(values))


def keywords(options: type, values: object) -> dict[str, Any]:
    """The options of a command out of all that its command line says."""
    return {option.name: getattr(values, option.name) for option in options_of(options)}


def keyword_options(function: Callable[..., Any]) -> tuple[Option, ...]:
    """The options of a function that has `**options: Unpack[X]`; () for any other."""
    *_, last = signature(function).parameters.values()
    if last.kind is not last.VAR_KEYWORD:
        return ()
    return options_of(unwrap(function).__globals__[last.annotation[len("Unpack[") : -1]])


def spelled_out(function: Callable[..., Any]) -> Signature:
    """The signature of a function, with `**options: Unpack[X]` as the keywords that X declares."""
    found = signature(function)
    parameters = [one for one in found.parameters.values() if one.kind is not one.VAR_KEYWORD]
    parameters += [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        for option in keyword_options(function)
    ]
    return found.replace(parameters=parameters)


REFERENCE = Flag(
    "your function, in numpy or PyTorch, that computes an operator's nodes instead of onnxruntime, or the whole model; may "
    "be repeated",
    "[OP_TYPE=]MODULE:FUNCTION",
)


class Operators(TypedDict, total=False):
    """your own operators"""

    ops: Annotated[
        Paths,
        Flag(
            "FILE.py, a FOLDER or a dotted MODULE with their definitions, OPERATORS; its code is imported and run; may be "
            f"repeated. {VARIABLE} names more",
            "SPEC",
            common=True,
            kind=SPECS,
        ),
    ]
    plugins_from_packages: Annotated[
        bool,
        Flag(
            f"ignore operators of installed packages (entry points {GROUP})",
            "",
            LEAVE_OUT,
            default=True,
            action="store_false",
        ),
    ]


def operator_words(options: Any) -> list[str]:
    """The given options as words of the command that a record keeps."""
    words = [word for spec in options.ops for word in ("--ops", spec)]
    return words if options.plugins_from_packages else [*words, LEAVE_OUT]


class Replacing(TypedDict, total=False):
    """output"""

    force: Annotated[
        bool,
        Flag(
            "replace any existing file; default: only what the same command wrote, and an engine only of the same model"
        ),
    ]


class Telling(TypedDict, total=False):
    verbose: bool  # of which every command has the flag
    progress: Progress | None

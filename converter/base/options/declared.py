"""Declares each option once: its type, and its flag, help, default and kind.

A block of options is a dataclass that a stage reads, or a TypedDict of what only the API's functions read. Each field is
Annotated with a Flag: in a dataclass it has the type that the stage reads, in a TypedDict that of the API. The block's
title in a command's help is its `TITLE`, or a docstring without a full stop.
The options of a command are a tuple of blocks, in the order in which its help has them. From it come argparse's flags, the
keywords of the API's function (keywords.pyi), the keys of a zoo, and the pages of both references.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from typing_extensions import TypedDict

from trtsmith.converter.base.options.kinds import IN_PYTHON, Flag, OptionKind, kind_of


@dataclass(frozen=True)
class Option:
    """An option of a block.

    field:   the stage's name for it. annotation: of the API.
    default: of the API, where it is not given.
    flags:   its own, and others that only the terminal has.
    owner:   the dataclass whose field it is; None: a stage's field of that name, if it has one.
    """

    name: str
    field: str
    annotation: str
    kind: OptionKind
    default: Any
    flags: tuple[Flag, ...]
    owner: type | None = None

    def is_of(self, stage: type) -> bool:
        """Tells whether the options of a stage have it as a field. One of another block may have the same name."""
        named = self.field in stage.__dataclass_fields__  # type: ignore[attr-defined]
        return named and (self.owner is None or issubclass(stage, self.owner))


@dataclass(frozen=True, eq=False)
class Group:
    """Options under a title, from blocks that have more, or from a table."""

    title: str
    options: tuple[Option, ...]


Block = type | Group
Options = Block | tuple[Block, ...]


def only(block: Block, title: str, *names: str) -> Group:
    """Returns the options of a block with these names."""
    found = {option.name: option for option in options_of(block)}
    return Group(title, tuple(found[name] for name in names))


def title_of(block: Block) -> str:
    """Returns the title of a block's flags."""
    if isinstance(block, Group):
        return block.title
    said = (block.__doc__ or "").strip()
    return str(getattr(block, "TITLE", "")) or ("" if said.endswith(".") else said)


def _bases(block: type) -> tuple[type, ...]:
    return tuple(base for base in getattr(block, "__orig_bases__", ()) if base is not TypedDict)


def blocks_of(options: Options) -> Iterator[Block]:
    """Yields the blocks that a command's options consist of, in order; one with a title is whole."""
    if isinstance(options, tuple):
        for block in options:
            yield from blocks_of(block)
        return
    for base in () if title_of(options) or isinstance(options, Group) else _bases(options):
        yield from blocks_of(base)
    yield options


@cache
def options_of(options: Options) -> tuple[Option, ...]:
    """Returns the options of blocks, with those of the blocks inside them."""
    if isinstance(options, Group):
        return options.options
    made_of = options if isinstance(options, tuple) else _bases(options)
    found = {option.name: option for block in made_of for option in options_of(block)}
    if isinstance(options, type):
        own = _of_dataclass(options) if is_dataclass(options) else _of_typed_dict(options, found)
        found |= {option.name: option for option in own}
    return tuple(found.values())


def _flags(hint: str, block: type) -> tuple[str, tuple[Flag, ...]]:
    """What an annotation says: the type as it is written, and the flags."""
    tree = ast.parse(hint, mode="eval")
    flags = getattr(eval(hint, vars(sys.modules[block.__module__])), "__metadata__", ())
    written = tree.body.slice.elts[0] if flags else tree.body  # type: ignore[attr-defined]
    return ast.unparse(written), flags


def _of_typed_dict(block: type, inherited: Mapping[str, Option]) -> Iterator[Option]:
    for name, hint in block.__annotations__.items():
        if name in inherited:
            continue
        written, flags = _flags(hint.__forward_arg__, block)
        asked = flags[0] if flags else IN_PYTHON
        kind = asked.kind or kind_of(written) or OptionKind()
        default = None if written.endswith("| None") else kind.default
        yield Option(name, name, written, kind, default if asked.default is None else asked.default, flags)


def _of_dataclass(block: type) -> Iterator[Option]:
    for field in fields(block):
        owner = next(one for one in block.__mro__ if field.name in vars(one).get("__annotations__", ()))
        written, flags = _flags(str(field.type), owner)
        if flags:
            kind = flags[0].kind or kind_of(written)
            assert kind is not None, f"{field.name} needs a kind"
            said = isinstance(field.default, (str, int, float, tuple))
            default = flags[0].default
            if default is None:
                default = field.default if said else kind.default
            asked = kind.annotation if default is not None else f"{kind.annotation} | None"
            shown = tuple(flag for flag in flags if flag is not IN_PYTHON)
            yield Option(flags[0].keyword or field.name, field.name, asked, kind, default, shown, owner)


def with_defaults(options: Options, values: Mapping[str, Any]) -> SimpleNamespace:
    """Returns all options of a command, as the command line has them: those of `values`, and the others' defaults."""
    return SimpleNamespace(**{option.name: option.default for option in options_of(options)} | dict(values))

"""Writes options of a zoo as words of a command line: a key is a long flag without its dashes.

What a value may be follows from the flag's action, as argparse knows it:

    a switch (--embed-plugins, --io-precision)   true, or false for "not given"
    a pair (--mend, --no-mend)                   mend = false is --no-mend
    one value (--precision, --rtol, --inputs)    a string or a number
    values apart by commas (--target, --at)      a string "sm86,sm89", or an array of them
    a flag that may be repeated (--plugins)      one value, or an array of them
    NAME=VALUE, repeated (--shapes, --freeze)    such strings, or a table { NAME = VALUE }

Files are relative to the zoo's, and become absolute; ~ is the user's home.
"""

from __future__ import annotations

import argparse
import json
import os
from argparse import Action
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMAS = frozenset({"target", "at"})
"""Options whose one value is a list with commas."""

NAMED = {
    "shapes": "=",
    "values": "=",
    "freeze": "=",
    "reference": "=",
    "rtol": ":",
    "atol": ":",
    "compare": "=",
}
"""Options whose values belong to a name, and what stands between the two."""

_POINTS = ("min", "opt", "max")


class OptionError(ValueError):
    """A value that the option cannot have. expected, fix: as in a Problem. inner: keys below the option's own."""

    def __init__(self, what: str, expected: str, fix: str, *inner: str | int) -> None:
        super().__init__(what)
        self.expected, self.fix, self.inner = expected, fix, inner


def words_of(name: str, action: Action, value: Any, folder: Path) -> tuple[str, ...]:
    """The words for one option; () where the value says that it is not given. folder: the zoo's. OptionError."""
    flag = f"--{name}"
    if isinstance(action, argparse.BooleanOptionalAction):
        negative = name.startswith("no-") and flag in action.option_strings[1:]
        wanted = _switch(name, value) is not negative
        return (next(one for one in action.option_strings if one.startswith("--no-") is not wanted),)
    if action.nargs == 0:
        return (flag,) if _switch(name, value) else ()
    texts = _texts(name, action, value, folder)
    return tuple(word for text in texts for word in _one(flag, text))


def absolute(text: str, folder: Path) -> Path:
    """A path of the zoo's file, without .. where that leads to the same place."""
    given = folder / os.path.expanduser(text)
    short = Path(os.path.normpath(given))
    return short if os.path.realpath(short) == os.path.realpath(given) else given


def takes_several(name: str, action: Action) -> bool:
    """Whether an array is one value of the option, and not several to choose from."""
    return name in COMMAS or isinstance(action, argparse._AppendAction)


def _one(flag: str, text: str) -> tuple[str, ...]:
    """A flag with its value: as one word where the value could pass for a flag."""
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        what = f"{name} is true or false, not {shown(value)}"
        raise OptionError(what, "true or false", f"{name} = true")
    return value


def _texts(name: str, action: Action, value: Any, folder: Path) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(_named(name, key, inner, folder) for key, inner in value.items())
    if not isinstance(value, list):
        return (_text(name, action, value, folder),)
    if not takes_several(name, action):
        expected = _form(action)
        fix = f"give one, or make an axis of it: [matrix] {name} = {shown(value)}"
        raise OptionError(f"{name} takes one value, not an array", expected, fix)
    texts = tuple(_text(name, action, inner, folder, position) for position, inner in enumerate(value))
    if name not in COMMAS:
        return texts
    if not texts:
        raise OptionError(f"{name} has no value in it", _form(action), "name one, or remove the key")
    return (",".join(texts),)


def _text(name: str, action: Action, value: Any, folder: Path, *inner: int) -> str:
    """A string or a number as a word."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        what = f"{name} takes {_form(action)}, not {shown(value)}"
        example = f'{name} = {{ NAME = "..." }}' if name in NAMED else f'{name} = "..."'
        raise OptionError(what, _form(action), example, *inner)
    text = value if isinstance(value, str) else repr(value)
    if "\0" in text:
        raise OptionError(f"{name} has a NUL in it", _form(action), "remove it", *inner)
    if action.type is Path:
        if not text:
            raise OptionError(f"{name} names no file", "a path", "remove the key", *inner)
        return str(absolute(text, folder))
    if name == "ops" and is_path_of_operators(text, folder):
        return str(absolute(text, folder))
    if name == "freeze":
        return _frozen_file(text, folder)
    return text


def is_path_of_operators(spec: str, folder: Path) -> bool:
    """Whether --ops means a file or a folder, as trtsmith.converter.operators.module_files tells; else it is a module."""
    return (
        spec.endswith(".py")
        or os.sep in spec
        or spec in (".", "..")
        or spec.startswith("~")
        or os.path.exists(folder / spec)
    )


def _frozen_file(text: str, folder: Path) -> str:
    """NAME=@FILE.npy with the file's absolute path."""
    name, found, file = text.partition("=@")
    return f"{name}=@{absolute(file, folder)}" if found else text


def _named(name: str, key: str, value: Any, folder: Path) -> str:
    if name not in NAMED:
        raise OptionError(f"{name} is no table", "a value, or an array of values", f'{name} = "..."')
    write = {"shapes": _shape_text, "values": _values_text, "freeze": _frozen_text}.get(name, _plain_text)
    text = f"{key}{NAMED[name]}{write(name, key, value)}"
    return _frozen_file(text, folder) if name == "freeze" else text


def _plain_text(name: str, key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        what = f"{name} of {key!r} is a string or a number, not {shown(value)}"
        raise OptionError(what, "a string or a number", f'{name} = {{ {key} = "..." }}', key)
    return value if isinstance(value, str) else repr(value)


def _shape_text(name: str, key: str, value: Any) -> str:
    """1x3x64x64, or three of them with colons between, of what is written as lists of sizes."""

    def one(sizes: Any) -> str:
        if isinstance(sizes, str):
            return sizes
        if not isinstance(sizes, list) or not all(_is_whole(size) for size in sizes):
            raise _no_range(name, key, value, "[1, 3, 64, 64]")
        return "x".join(map(str, sizes))

    return _range_text(name, key, value, one, isinstance(value, list) and any(map(_is_list, value)))


def _values_text(name: str, key: str, value: Any) -> str:
    """3 or [1,1], or three of them with colons between."""

    def one(values: Any) -> str:
        if isinstance(values, str):
            return values
        listed = values if isinstance(values, list) else [values]
        if not all(_is_whole(item) for item in listed):
            raise _no_range(name, key, value, "[1, 1]")
        return json.dumps(values, separators=(",", ":"))

    return _range_text(name, key, value, one, isinstance(value, list) and any(map(_is_list, value)))


def _range_text(name: str, key: str, value: Any, one: Any, several: bool) -> str:
    """A value, or { min, opt, max }, or an array of these three."""
    if isinstance(value, dict):
        if set(value) != set(_POINTS):
            raise _no_range(name, key, value, "...")
        return ":".join(one(value[point]) for point in _POINTS)
    if several:
        return ":".join(one(item) for item in value)
    return str(one(value))


def _no_range(name: str, key: str, value: Any, example: str) -> OptionError:
    what = f"{name} of {key!r} is {shown(value)}"
    expected = f"{example}, or {{ min = {example}, opt = {example}, max = {example} }}, or a string as the flag takes it"
    return OptionError(what, expected, "write it so", key)


def _frozen_text(name: str, key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        expected = 'a number, true, false, an array of them, or "@FILE.npy"'
        raise OptionError(
            f"{name} of {key!r} is {shown(value)}", expected, "give such a value", key
        ) from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _form(action: Action) -> str:
    """What a flag takes, in few words."""
    if action.choices is not None:
        return "one of " + ", ".join(str(choice) for choice in action.choices if choice != "")
    return str(action.metavar or action.dest.upper())


def one_line(text: str) -> str:
    """A path or a name, quoted if it has a newline or the like in it."""
    return text if text.isprintable() else repr(text)


def shown(value: Any, most: int = 60) -> str:
    """A value as it may stand in a message."""
    kinds: Mapping[type, str] = {dict: "a table", list: "an array"}
    if type(value) in kinds and not value:
        return f"{kinds[type(value)]} with nothing in it"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}..."

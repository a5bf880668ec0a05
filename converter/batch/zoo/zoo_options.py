"""Reads the options of a zoo, whose keys are a command's long flags without the dashes.

The command's own parser and checks judge each value. Its allowed forms follow from the flag's action in argparse:

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
import re
import zipfile
from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.kinds import FREEZE, SHAPES, SPECS, OptionKind
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.batch.zoo.zoo_file import Given, KeyPath, did_you_mean, shown
from trtsmith.importers.problem import Problem

_POINTS = ("min", "opt", "max")
_OF_ARGPARSE = re.compile(r"argument [^:]*: ")
_PASTED = re.compile(r"--([a-z][\w-]*) (\S+)$")

OptionLayer = Mapping[str, Given]
"""Options of one table, by what argparse calls each (dest)."""


@dataclass(frozen=True)
class OptionCheck:
    """A check of parsed options beyond the parser's own.

    options: the long flags without dashes that it reads; a problem is shown at the first of them that is given.
    check:   raises UsageError.
    """

    options: tuple[str, ...]
    check: Callable[[Namespace], object]


@dataclass(frozen=True)
class ZooCommand:
    """A command, `convert`, `bench` or `tune`.

    parser:  whose errors raise UsageError, and which never ends the process.
    before:  the words that stand for what every task brings: the model and the engine.
    refused: options that a zoo cannot give, by their names without dashes, and why.
    """

    name: str
    parser: ArgumentParser
    before: tuple[str, ...]
    refused: Mapping[str, str]
    checks: tuple[OptionCheck, ...] = ()

    def parse(self, words: Sequence[str]) -> Namespace:
        """Parses words into options. Raises UsageError."""
        return self.parser.parse_args([*self.before, *words])

    def dests(self) -> frozenset[str]:
        """Returns the dests of all its options, those that a zoo cannot give among them."""
        return frozenset(action.dest for action in self.parser._actions)

    def options(self) -> dict[str, Action]:
        """Returns options available in a zoo, by long flag without dashes."""
        return {
            flag[2:]: action
            for action in self.parser._actions
            for flag in action.option_strings
            if flag.startswith("--") and flag[2:] not in self.refused
        }


@dataclass(frozen=True)
class ZooCommands:
    """The commands of a zoo.

    judged: dests of options of `convert` that judge an engine, and change nothing of it.
    shapes: the profile that options of `convert` ask for, by input; UsageError for an invalid one.
    """

    convert: ZooCommand
    bench: ZooCommand
    tune: ZooCommand
    judged: frozenset[str]
    shapes: Callable[[Namespace], Mapping[str, ShapeRange]]


@dataclass(frozen=True, eq=False)
class CheckedOptions:
    """Options as a command reads them, without wrong ones. wrong: the dests of those and of their companions."""

    read: Namespace
    wrong: frozenset[str]


class OptionReader:
    """Reads the options of one command; each option and set of options is checked once, including its files."""

    def __init__(self, command: ZooCommand) -> None:
        self.command = command
        self.actions = command.options()
        self._order = {action.dest: place for place, action in enumerate(command.parser._actions)}
        self._exclusive = [
            {action.dest for action in group._group_actions}
            for group in command.parser._mutually_exclusive_groups
        ]
        self._words: dict[KeyPath, tuple[str, ...] | None] = {}
        self._values: dict[KeyPath, object] = {}
        self._checked: dict[tuple[KeyPath, ...], CheckedOptions | None] = {}

    def read(self, table: Given, others: Collection[str] = ()) -> OptionLayer:
        """Reads the options of a table, each checked alone; keys of `others` are left to the caller."""
        layer: dict[str, Given] = {}
        for given in table.inner():
            if given.name in others:
                continue
            if given.name not in self.actions:
                own = f"a key of its own ({', '.join(others)}), or a long flag" if others else "a long flag"
                expected = f"{own} of `trtsmith {self.command.name}` without {'' if others else 'its '}dashes"
                self.unknown(given, f"unknown key {given.name!r}", expected, others)
            elif (dest := self.actions[given.name].dest) in layer:
                what = f"{given.name} and {layer[dest].name} are one option"
                given.wrong(what, "one of them", "remove the other")
            else:
                layer[dest] = given
                self.value(given)
        return layer

    def unknown(self, given: Given, what: str, expected: str, others: Collection[str]) -> None:
        """Records a key that is not an option or not allowed in a zoo."""
        if given.name in self.command.refused:
            what = f"a zoo cannot give {given.name}: {self.command.refused[given.name]}"
            expected = f"options of `trtsmith {self.command.name}` that are a task's own"
            given.wrong(what, expected, "remove it")
        else:
            of = next((name for name, one in self.actions.items() if given.name in (one.choices or ())), None)
            fix = did_you_mean(given.name, [*self.actions, *others])
            given.wrong(what, expected, fix if of is None else f'write {of} = "{given.name}"')

    def merged(self, *layers: OptionLayer) -> OptionLayer:
        """Merges layers of options; a later layer replaces earlier values, and options that cannot stand beside it."""
        result: dict[str, Given] = {}
        for layer in layers:
            out = {other for group in self._exclusive if group & layer.keys() for other in group}
            result = {dest: given for dest, given in result.items() if dest not in out} | dict(layer)
        return result

    def words(self, layer: OptionLayer) -> tuple[str, ...]:
        """Returns the words for options, in the parser's order; a wrong option has no words, but a problem."""
        return tuple(word for given in self._sorted(layer) for word in self._one(given) or ())

    def value(self, given: Given) -> object:
        """Returns the command's value of one option; None if it is wrong."""
        self._one(given)
        return self._values.get(given.keys)

    def check(self, layer: OptionLayer, entry: Given) -> CheckedOptions | None:
        """Checks the options together; None where they cannot stand beside each other. entry: of the model."""
        key = tuple(given.keys for given in self._sorted(layer))
        if key not in self._checked:
            self._checked[key] = self._check(layer, entry)
        return self._checked[key]

    def run(
        self,
        checks: Iterable[OptionCheck],
        layer: OptionLayer,
        checked: CheckedOptions,
        entry: Given,
        model: str = "",
    ) -> CheckedOptions:
        """Runs the checks, except of options known to be wrong; records findings, and marks their options as wrong."""
        wrong = checked.wrong
        for check in checks:
            dests = [self.actions[name].dest for name in check.options]
            if wrong & set(dests):
                continue
            try:
                check.check(checked.read)
            except UsageError as error:
                place = next((layer[dest] for dest in dests if dest in layer), entry)
                for problem in error.problems:
                    place.take(as_in_a_zoo(problem), model)
                wrong |= set(dests)
        return CheckedOptions(checked.read, wrong)

    def _sorted(self, layer: OptionLayer) -> list[Given]:
        return [layer[dest] for dest in sorted(layer, key=self._order.__getitem__)]

    def _one(self, given: Given) -> tuple[str, ...] | None:
        if given.keys not in self._words:
            self._words[given.keys] = self._read(given)
        return self._words[given.keys]

    def _read(self, given: Given) -> tuple[str, ...] | None:
        action = self.actions[given.name]
        kind = kind_of_action(action)
        try:
            words = words_of(given.name, action, given.value, given.file.folder)
            read = getattr(self.command.parse(words), action.dest)
        except OptionError as error:
            replace(given, keys=(*given.keys, *error.inner)).wrong(str(error), error.expected, error.fix)
            return None
        except UsageError as error:
            for problem in error.problems:
                self._say(given, action, problem)
            return None
        self._values[given.keys] = read
        faults = [(path, fault) for path in named_paths(kind, read) if (fault := _fault(path, kind))]
        for path, fault in faults:
            what = f"{given.name} names {fault}: {shown(str(path), 200)}"
            form = "an .npz file, as numpy.savez writes it" if kind.npz else "a file"
            given.wrong(what, f"{form}; paths are relative to {given.file.folder}", "correct the path")
        if kind.commas and isinstance(read, tuple) and read:  # GPUs by their names are targets
            words = (f"--{given.name}", ",".join(map(str, read)))
        return None if faults else words

    def _say(self, given: Given, action: Action, problem: Problem) -> None:
        """What argparse says of one option, without its prefix."""
        if action.choices is not None:
            what = f"{shown(given.value)} is not a value of {given.name}"
            choices = _choices(action)
            given.wrong(what, f"one of {', '.join(choices)}", did_you_mean(str(given.value), choices))
            return
        formatter = self.command.parser.formatter_class(prog=self.command.parser.prog)
        what = f"{given.name}: {_OF_ARGPARSE.sub('', problem.what, count=1)}"
        help_ = f"{action.metavar or action.dest}: {formatter._expand_help(action)}"
        given.wrong(what, help_, problem.fix)

    def _check(self, layer: OptionLayer, entry: Given) -> CheckedOptions | None:
        wrong = frozenset(dest for dest, given in layer.items() if self._one(given) is None)
        try:
            options = self.command.parse(self.words(layer))
        except UsageError as error:  # options that cannot stand beside each other
            together = ", ".join(given.name for given in layer.values())
            for problem in error.problems:
                entry.wrong(problem.what, f"options that go together; given are {together}", problem.fix)
            return None
        return self.run(self.command.checks, layer, CheckedOptions(options, wrong), entry)


def as_in_a_zoo(problem: Problem) -> Problem:
    """Converts a problem whose fix is a flag to paste: the fix becomes TOML."""
    pasted = _PASTED.fullmatch(problem.fix)
    if pasted is None or "'" in pasted[2]:
        return problem
    return replace(problem, fix=f"{pasted[1]} = ['{pasted[2]}']")


def kind_of_action(action: Action) -> OptionKind:
    """The kind of a flag's option; a plain one for flags that no option declares."""
    kind = getattr(action, "kind", None)
    return kind if isinstance(kind, OptionKind) else OptionKind()


def named_paths(kind: OptionKind, value: Any) -> tuple[Path, ...]:
    """The files that an option names, of SPECS also folders. value: as the command reads it, with absolute paths."""
    several = value if isinstance(value, (list, tuple)) else [value]
    if kind is SPECS:
        return tuple(Path(spec) for spec in several if os.path.isabs(spec))
    if kind is FREEZE:
        return tuple(Path(text.partition("=@")[2]) for text in several if "=@" in text)
    return tuple(one for one in several if isinstance(one, Path))


def _fault(path: Path, kind: OptionKind) -> str:
    """What a path is instead of the file that the option takes; "" if it is one."""
    if os.path.isfile(path):
        return "no .npz file" if kind.npz and not zipfile.is_zipfile(path) else ""
    if os.path.isdir(path):
        return "" if kind is SPECS else "a folder"
    return "no file"


class OptionError(ValueError):
    """An invalid option value. expected, fix: as in a Problem. inner: keys below the option's."""

    def __init__(self, what: str, expected: str, fix: str, *inner: str | int) -> None:
        super().__init__(what)
        self.expected, self.fix, self.inner = expected, fix, inner


def words_of(name: str, action: Action, value: Any, folder: Path) -> tuple[str, ...]:
    """Returns the words for one option; () for a value that leaves it out. folder: the zoo's. Raises OptionError."""
    flag = f"--{name}"
    if action.nargs == 0 and not isinstance(value, bool):
        what = f"{name} is true or false, not {shown(value)}"
        raise OptionError(what, "true or false", f"{name} = true")
    if isinstance(action, argparse.BooleanOptionalAction):
        negative = name.startswith("no-") and flag in action.option_strings[1:]
        wanted = value is not negative
        return (next(one for one in action.option_strings if one.startswith("--no-") is not wanted),)
    if action.nargs == 0:
        return (flag,) if value else ()
    texts = _texts(name, action, value, folder)
    # As one word where the value could pass for a flag.
    return tuple(w for text in texts for w in ((f"{flag}={text}",) if text.startswith("-") else (flag, text)))


def absolute(text: str, folder: Path) -> Path:
    """Makes a path relative to the zoo file absolute, without .. where that is equivalent."""
    given = folder / os.path.expanduser(text)
    short = Path(os.path.normpath(given))
    return short if os.path.realpath(short) == os.path.realpath(given) else given


def takes_several(action: Action) -> bool:
    """Tells whether an array is a single value of the option and not a list of alternatives."""
    return kind_of_action(action).commas or isinstance(action, argparse._AppendAction)


def _texts(name: str, action: Action, value: Any, folder: Path) -> tuple[str, ...]:
    kind = kind_of_action(action)
    if isinstance(value, dict):
        if not kind.named:
            raise OptionError(f"{name} is no table", "a value, or an array of values", f'{name} = "..."')
        texts = (f"{key}{kind.named}{_named(name, kind, key, inner)}" for key, inner in value.items())
        return tuple(_with_path(action, text, folder) for text in texts)
    if not isinstance(value, list):
        return (_text(name, action, value, folder),)
    if kind.sizes and value and not any(isinstance(inner, str | dict) for inner in value):
        what = f"{name} = {shown(value)} has no name of an input"
        fix = f"{name} = {{ NAME = {shown(value)} }}, with the input's name"
        raise OptionError(what, f"a table {{ NAME = {kind.sizes} }}", fix)
    if not takes_several(action):
        fix = f"give one, or make an axis of it: [matrix] {name} = {shown(value)}"
        raise OptionError(f"{name} takes one value, not an array", _form(action), fix)
    listed = tuple(_text(name, action, inner, folder, position) for position, inner in enumerate(value))
    if not kind.commas:
        return listed
    if not listed:
        raise OptionError(f"{name} has no value in it", _form(action), "name one, or remove the key")
    return (",".join(listed),)


def _text(name: str, action: Action, value: Any, folder: Path, *inner: int) -> str:
    """A string or a number as a word."""
    if not _is_plain(value):
        what = f"{name} takes {_form(action)}, not {shown(value)}"
        example = f'{name} = {{ NAME = "..." }}' if kind_of_action(action).named else f'{name} = "..."'
        raise OptionError(what, _form(action), example, *inner)
    text = str(value)
    if "\0" in text:
        raise OptionError(f"{name} has a NUL in it", _form(action), "remove it", *inner)
    if action.type is Path and not text:
        raise OptionError(f"{name} names no file", "a path", "remove the key", *inner)
    return _with_path(action, text, folder)


def _with_path(action: Action, text: str, folder: Path) -> str:
    """A word with the path in it, if there is one, made absolute."""
    kind = kind_of_action(action)
    if action.type is Path or (kind is SPECS and _is_path_of_operators(text, folder)):
        return str(absolute(text, folder))
    before, found, file = text.partition("=@")
    return f"{before}=@{absolute(file, folder)}" if found and kind is FREEZE else text


def _is_path_of_operators(spec: str, folder: Path) -> bool:
    """Whether --ops means a file or a folder, as trtsmith.converter.operators.module_files tells; else it is a module."""
    like_one = spec.endswith(".py") or os.sep in spec or spec in (".", "..") or spec.startswith("~")
    return like_one or os.path.exists(folder / spec)


def _named(name: str, kind: OptionKind, key: str, value: Any) -> str:
    """The value that a table has for a name, as the flag takes it."""
    if kind.sizes:
        return _points(name, kind, key, value)
    if kind is not FREEZE and not _is_plain(value):
        what = f"{name} of {key!r} is a string or a number, not {shown(value)}"
        example = f'{{ {key} = "..." }}'
        raise OptionError(what, "a string or a number", f"{name} = {example}", key)
    if kind is not FREEZE or isinstance(value, str):
        return str(value)
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        what = f"{name} of {key!r} is {shown(value)}"
        expected = 'a number, true, false, an array of them, or "@FILE.npy"'
        raise OptionError(what, expected, "give such a value", key) from None


def _points(name: str, kind: OptionKind, key: str, value: Any) -> str:
    """Shapes or values of an input: a string as the flag takes it, a list of sizes, or three of these."""

    def one(sizes: Any) -> str:
        if isinstance(sizes, str):
            return sizes
        listed = sizes if isinstance(sizes, list) or kind is SHAPES else [sizes]
        if not isinstance(listed, list) or any(type(size) is not int for size in listed):
            raise fault
        return "x".join(map(str, sizes)) if kind is SHAPES else json.dumps(sizes, separators=(",", ":"))

    example = kind.sizes
    three = f"{{ min = {example}, opt = {example}, max = {example} }}"
    expected = f"{example}, or {three}, or a string as the flag takes it"
    fault = OptionError(f"{name} of {key!r} is {shown(value)}", expected, "write it so", key)
    if isinstance(value, dict):
        if set(value) != set(_POINTS):
            raise fault
        value = [value[point] for point in _POINTS]
    elif not isinstance(value, list) or not any(isinstance(inner, list) for inner in value):
        return one(value)
    return ":".join(map(one, value))


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _choices(action: Action) -> list[str]:
    return [str(choice) for choice in action.choices or () if choice != ""]


def _form(action: Action) -> str:
    """What a flag takes, in few words."""
    if action.choices is not None:
        return "one of " + ", ".join(_choices(action))
    return str(action.metavar or action.dest.upper())

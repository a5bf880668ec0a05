"""Checks options as the command line would, and shows what is wrong with them at their lines."""

from __future__ import annotations

import os
import re
import zipfile
from argparse import Action, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.zoo.option_tables import GivenOption, OptionLayer, did_you_mean
from trtsmith.converter.batch.zoo.option_words import COMMAS, OptionError, shown, words_of
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommand
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

_OF_ARGPARSE = re.compile(r"argument [^:]*: ")
_NPZ = "NPZ"
_PASTED = re.compile(r"--([a-z][\w-]*) (\S+)$")


@dataclass(frozen=True, eq=False)
class CheckedOptions:
    """Options as a command reads them, without those that are wrong. wrong: these, by dest, and those that go with them."""

    read: Namespace
    wrong: frozenset[str]

    @property
    def sound(self) -> bool:
        """Whether all is right."""
        return not self.wrong


class OptionChecker:
    """Of one command; every option and every set of options is looked at once. Files are looked for, too."""

    def __init__(self, command: ZooCommand, findings: ZooFindings) -> None:
        self.command, self._findings = command, findings
        self._actions = command.options()
        self._order = {action.dest: place for place, action in enumerate(command.parser._actions)}
        self._words: dict[Keys, tuple[str, ...] | None] = {}
        self._values: dict[Keys, object] = {}
        self._checked: dict[tuple[Keys, ...], CheckedOptions | None] = {}

    def words(self, layer: OptionLayer) -> tuple[str, ...]:
        """The words for options, in the parser's order; of one that is wrong there are none, but a finding."""
        return tuple(word for given in self._sorted(layer) for word in self._one(given) or ())

    def options(self, layer: OptionLayer, keys: Keys) -> CheckedOptions | None:
        """The options, checked; None where they cannot stand beside each other. keys: of the model, for messages."""
        given = self._sorted(layer)
        key = tuple(one.keys for one in given)
        if key not in self._checked:
            self._checked[key] = self._checked_options(layer, keys)
        return self._checked[key]

    def value(self, given: GivenOption) -> object:
        """What the command reads of one option; None where it is wrong."""
        self._one(given)
        return self._values.get(given.keys)

    def place(self, layer: OptionLayer, names: tuple[str, ...], otherwise: Keys) -> Keys:
        """Where the first of some options stands that is given."""
        for name in names:
            action = self._actions.get(name)
            if action is not None and action.dest in layer:
                return layer[action.dest].keys
        return otherwise

    def _sorted(self, layer: OptionLayer) -> list[GivenOption]:
        return sorted(layer.values(), key=lambda given: self._order[given.dest])

    def _one(self, given: GivenOption) -> tuple[str, ...] | None:
        if given.keys not in self._words:
            self._words[given.keys] = self._read(given)
        return self._words[given.keys]

    def _read(self, given: GivenOption) -> tuple[str, ...] | None:
        action = self._actions[given.name]
        try:
            words = words_of(given.name, action, given.value, self._findings.file.folder)
        except OptionError as error:
            self._findings.add((*given.keys, *error.inner), str(error), error.expected, error.fix)
            return None
        try:
            read = self.command.parse(words)
        except UsageError as error:
            for problem in error.problems:
                self._say(given, problem)
            return None
        self._values[given.keys] = getattr(read, given.dest)
        if not self._files_are_there(given, action):
            return None
        return _in_the_parsers_words(given.name, words, self._values[given.keys])

    def _files_are_there(self, given: GivenOption, action: Action) -> bool:
        folder = self._findings.file.folder
        good = True
        for path in named_paths(given.name, self._values[given.keys]):
            if fault := _fault(path, action, given):
                what = f"{given.name} names {fault}: {shown(str(path), 200)}"
                expected = f"{_form(action)}; paths are relative to {folder}"
                self._findings.add(given.keys, what, expected, "correct the path")
                good = False
        return good

    def _say(self, given: GivenOption, problem: Problem) -> None:
        """What argparse says of one option, without its prefix."""
        action = self._actions[given.name]
        if action.choices is not None:
            choices = [str(choice) for choice in action.choices if choice != ""]
            what = f"{shown(given.value)} is no value of {given.name}"
            fix = did_you_mean(str(given.value), choices)
            self._findings.add(given.keys, what, f"one of {', '.join(choices)}", fix)
            return
        what = f"{given.name}: {_OF_ARGPARSE.sub('', problem.what, count=1)}"
        self._findings.add(given.keys, what, self._help(action), problem.fix)

    def _help(self, action: Action) -> str:
        """What `--help` says of an option."""
        formatter = self.command.parser.formatter_class(prog=self.command.parser.prog)
        return f"{action.metavar or action.dest}: {formatter._expand_help(action)}"

    def _checked_options(self, layer: OptionLayer, keys: Keys) -> CheckedOptions | None:
        wrong = frozenset(dest for dest, given in layer.items() if self._one(given) is None)
        names = {given.name for dest, given in layer.items() if dest in wrong}
        try:
            options = self.command.parse(self.words(layer))
        except UsageError as error:  # options that cannot stand beside each other
            together = ", ".join(given.name for given in layer.values())
            for problem in error.problems:
                self._findings.add(
                    keys, problem.what, f"options that go together; given are {together}", problem.fix
                )
            return None
        for check in self.command.checks:
            if names & set(check.options):
                continue  # there is a finding for it, and what it would be is not known
            try:
                check.check(options)
            except UsageError as error:
                place = self.place(layer, check.options, keys)
                for problem in error.problems:
                    self._findings.take(place, as_in_a_zoo(problem))
                wrong |= {self._actions[name].dest for name in check.options}
        return CheckedOptions(options, wrong)


def as_in_a_zoo(problem: Problem) -> Problem:
    """A problem whose fix is a flag to paste, with the same as TOML."""
    pasted = _PASTED.fullmatch(problem.fix)
    if pasted is None or "'" in pasted[2]:
        return problem
    return Problem(problem.what, problem.where, problem.expected, f"{pasted[1]} = ['{pasted[2]}']")


def named_paths(name: str, value: Any) -> tuple[Path, ...]:
    """The files, and with `ops` folders, that an option names. value: as the command reads it; paths in it are absolute."""
    several = value if isinstance(value, (list, tuple)) else [value]
    if name == "ops":
        return tuple(Path(spec) for spec in several if os.path.isabs(spec))
    if name == "freeze":
        files = (text.partition("=@") for text in several)
        return tuple(Path(file) for _, found, file in files if found)
    return tuple(one for one in several if isinstance(one, Path))


def _in_the_parsers_words(name: str, words: tuple[str, ...], value: object) -> tuple[str, ...]:
    """The words, with a list as the command reads it: GPUs by their names are targets, which tasks are placed by."""
    if name in COMMAS and isinstance(value, tuple) and value:
        return (f"--{name}", ",".join(map(str, value)))
    return words


def _fault(path: Path, action: Action, given: GivenOption) -> str:
    """What a path is instead of the file that the option takes; "" if it is one."""
    if os.path.isfile(path):
        return "no .npz file" if action.metavar == _NPZ and not zipfile.is_zipfile(path) else ""
    if os.path.isdir(path):
        return "" if given.name == "ops" else "a folder"
    return "no file"


def _form(action: Action) -> str:
    return "an .npz file, as numpy.savez writes it" if action.metavar == _NPZ else "a file"

"""Checks options as the command line would, and shows what is wrong with them at their lines."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

from trtsmith.converter.batch.zoo.option_tables import GivenOption, OptionLayer, did_you_mean
from trtsmith.converter.batch.zoo.option_words import OptionError, shown, words_of
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommand
from trtsmith.converter.batch.zoo.zoo_file import Findings
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

_OF_ARGPARSE = re.compile(r"argument [^:]*: ")
_PASTED = re.compile(r"--([a-z][\w-]*) (\S+)$")


class OptionChecker:
    """Of one command; every option and every set of options is looked at once. Files are looked for, too."""

    def __init__(self, command: ZooCommand, findings: Findings) -> None:
        self.command, self._findings = command, findings
        self._actions = command.options()
        self._order = {action.dest: place for place, action in enumerate(command.parser._actions)}
        self._words: dict[Keys, tuple[str, ...] | None] = {}
        self._checked: dict[tuple[Keys, ...], Namespace | None] = {}

    def words(self, layer: OptionLayer) -> tuple[str, ...] | None:
        """The words for options, in the parser's order; None where one of them is wrong, which is a finding then."""
        parts = [self._one(given) for given in self._sorted(layer)]
        if any(part is None for part in parts):
            return None
        return tuple(word for part in parts for word in part or ())

    def options(self, layer: OptionLayer, keys: Keys) -> Namespace | None:
        """The options as the command reads them; None where they are wrong. keys: of the model, for messages."""
        given = self._sorted(layer)
        key = tuple(one.keys for one in given)
        if key not in self._checked:
            words = self.words(layer)
            self._checked[key] = None if words is None else self._checked_options(layer, words, keys)
        return self._checked[key]

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
        action, folder = self._actions[given.name], self._findings.file.folder
        try:
            words = words_of(given.name, action, given.value, folder)
        except OptionError as error:
            self._findings.add((*given.keys, *error.inner), str(error), error.expected, error.fix)
            return None
        try:
            read = self.command.parse(words)
        except UsageError as error:
            for problem in error.problems:
                self._say(given, problem)
            return None
        missing = False
        for path in paths_in(getattr(read, given.dest)) if action.type is Path else ():
            if not path.is_file():
                what = f"{given.name} names a folder" if path.is_dir() else f"{given.name} names no file"
                self._findings.add(
                    given.keys,
                    f"{what}: {path}",
                    f"a file; paths are relative to {folder}",
                    "correct the path",
                )
                missing = True
        return None if missing else words

    def _say(self, given: GivenOption, problem: Problem) -> None:
        """What argparse says of one option, without its prefix."""
        action = self._actions[given.name]
        expected, fix = f"what `trtsmith {self.command.name} --help` says of --{given.name}", problem.fix
        if action.choices is not None:
            choices = [str(choice) for choice in action.choices if choice != ""]
            what = f"{shown(given.value)} is no value of {given.name}"
            fix = did_you_mean(str(given.value), choices)
            self._findings.add(given.keys, what, f"one of {', '.join(choices)}", fix)
            return
        what = f"{given.name}: {_OF_ARGPARSE.sub('', problem.what, count=1)}"
        self._findings.add(given.keys, what, expected, fix)

    def _checked_options(self, layer: OptionLayer, words: tuple[str, ...], keys: Keys) -> Namespace | None:
        found = len(self._findings)
        try:
            options = self.command.parse(words)
        except UsageError as error:  # options that cannot stand beside each other
            names = ", ".join(given.name for given in layer.values())
            for problem in error.problems:
                self._findings.add(
                    keys, problem.what, f"options that go together; given are {names}", problem.fix
                )
            return None
        for check in self.command.checks:
            try:
                check.check(options)
            except UsageError as error:
                place = self.place(layer, check.options, keys)
                for problem in error.problems:
                    self._findings.take(place, as_in_a_zoo(problem))
        return options if len(self._findings) == found else None


def as_in_a_zoo(problem: Problem) -> Problem:
    """A problem whose fix is a flag to paste, with the same as TOML."""
    pasted = _PASTED.fullmatch(problem.fix)
    if pasted is None or "'" in pasted[2]:
        return problem
    return Problem(problem.what, problem.where, problem.expected, f"{pasted[1]} = ['{pasted[2]}']")


def paths_in(value: object) -> tuple[Path, ...]:
    """The paths that a parsed option has: none, one, or several."""
    several = value if isinstance(value, (list, tuple)) else [value]
    return tuple(one for one in several if isinstance(one, Path))

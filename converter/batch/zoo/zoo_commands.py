"""Describes the commands whose options a zoo can give: the command line's own parsers, handed in by it."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trtsmith.converter.model.shapes import ShapeRange


@dataclass(frozen=True)
class OptionCheck:
    """A check of parsed options, beyond what the parser holds them to.

    options: the long flags without dashes that it reads; a problem is shown at the first of them that is given.
    check:   raises UsageError.
    """

    options: tuple[str, ...]
    check: Callable[[Namespace], object]


@dataclass(frozen=True)
class ZooCommand:
    """A command, `convert` or `bench`.

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
        """The options in words. UsageError for what the parser does not take."""
        return self.parser.parse_args([*self.before, *words])

    def options(self) -> dict[str, Action]:
        """The options that a zoo can give, by their long flags without dashes."""
        return {
            flag[2:]: action
            for action in self.parser._actions
            for flag in action.option_strings
            if flag.startswith("--") and flag[2:] not in self.refused
        }

    def exclusive(self) -> dict[str, frozenset[str]]:
        """By option the options that cannot stand beside it, by what argparse calls each (dest)."""
        groups = [
            [action.dest for action in group._group_actions]
            for group in self.parser._mutually_exclusive_groups
        ]
        return {dest: frozenset(group) - {dest} for group in groups for dest in group}


@dataclass(frozen=True)
class ZooCommands:
    """shapes: the profile that parsed options of `convert` ask for, by input. UsageError for what is none."""

    convert: ZooCommand
    bench: ZooCommand
    shapes: Callable[[Namespace], Mapping[str, ShapeRange]]

"""Parses a command's arguments; its errors have four parts and suggest the closest flag."""

from __future__ import annotations

import argparse
import copy
import itertools
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

from trtsmith.converter.base.errors import EXIT_USAGE, UsageError, causes
from trtsmith.converter.base.options.suggestions import nearest
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.parsing.help_text import HelpText
from trtsmith.converter.cli.parsing.other_flags import FLAGS
from trtsmith.converter.cli.parsing.other_tools import foreign_flag
from trtsmith.converter.cli.terminal.colors import MODES
from trtsmith.importers.problem import Problem


def color_of(words: Sequence[str]) -> str:
    """Returns the value of --color on a command line that is not or cannot be parsed."""
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        name, _, value = word.partition("=")
        if name == "--color" and (value or following) in MODES:
            return value or following
    return "auto"


def common_options() -> argparse.ArgumentParser:
    """Returns the options of every command."""
    common = argparse.ArgumentParser(add_help=False)
    loudness = common.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress; problems only")
    loudness.add_argument(
        "-v", "--verbose", action="store_true", help="more progress, and TensorRT's own messages"
    )
    common.add_argument("--help-all", action=_AllHelp, nargs=0, help="show all flags, by group")
    common.add_argument(
        "--color",
        choices=MODES,
        default="auto",
        help="colours: auto uses them on a terminal, and respects NO_COLOR and FORCE_COLOR",
    )
    return common


class _AllHelp(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        assert isinstance(parser, CommandParser)
        print(parser.format_help(every=True), end="")
        parser.exit()


class _Once(argparse._StoreAction):
    """Stores the value of a flag, and refuses a second one."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, flag: Any = None
    ) -> None:
        assert isinstance(parser, CommandParser)
        if flag is not None:
            parser.check_first("/".join(self.option_strings), self.dest, value)
        setattr(namespace, self.dest, value)


_MANY = 12
"""A command with more flags has a short help: everything else fits a screen of 50 lines as it is."""

_OF_EVERY_COMMAND = ("help", "help_all", "quiet", "verbose", "color")


_FLAG_OF = {**dict.fromkeys((".plan", ".engine", ".trt"), "-o"), ".npz": "--inputs"}
"""By suffix, the flag that a file was probably meant for."""

_MODELS = (".onnx", ".pt2")


_NO_VALUE = re.compile(r"argument (?:\S+/)?(\S+): expected (?:one|at least one) argument")
"""What argparse says of a flag without its value."""

_CLAUSE = re.compile(r"(?:\([^)]*\)|[;.](?! )|[^;.(])*")
"""The first clause of a flag's help: up to a semicolon or a full stop outside of brackets."""


def _briefly(action: argparse.Action) -> argparse.Action:
    """A flag with the first clause of its help; an argument as it is."""
    if not action.option_strings or not action.help:
        return action
    brief = copy.copy(action)
    brief.help = _CLAUSE.match(action.help)[0]  # type: ignore[index]  # it matches anything
    return brief


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser with our errors, and with short help for commands with many flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "formatter_class": HelpText, "allow_abbrev": False})
        self.register("action", None, _Once)
        self.given: dict[str, Any] = {}  # values of flags on this command line so far, by dest
        self.elsewhere: Callable[[str, str], tuple[str, str]] = lambda flag, value: (
            "",
            "",
        )  # see _unknown_flag
        self._words: Sequence[str] = ()
        self._positionals.title, self._optionals.title = "arguments", "options"

    def is_short(self, action: argparse.Action) -> bool:
        """Tells whether the short help shows the argument."""
        return not action.option_strings or action.required or getattr(action, "common", False)

    def has_short_help(self) -> bool:
        flags = [a for a in self._actions if a.option_strings and a.dest not in _OF_EVERY_COMMAND]
        return len(flags) > _MANY

    def format_help(self, every: bool = False) -> str:
        """Formats the help; long commands show common flags only, unless `every`."""
        short = self.has_short_help() and not every
        help_text = self._get_formatter()
        help_text.add_usage(self._brief_usage(), [], [])
        help_text.add_text(self.description)
        for group in sorted(self._action_groups, key=lambda group: group is self._optionals):
            help_text.start_section(group.title)
            shown = [a for a in group._group_actions if (self.is_short(a) if short else a.dest != "help_all")]
            help_text.add_arguments([_briefly(a) for a in shown] if short else shown)
            help_text.end_section()
        notes, examples, more = (self.epilog or "").partition("examples:")
        help_text.add_text("" if short else notes)
        help_text.add_text(examples + more)
        if short:
            help_text.add_text(f"{self.prog} --help-all shows all its flags.")
        return help_text.format_help()

    def error(self, message: str) -> NoReturn:
        fix = f"{self.prog} --help"
        if ": not allowed with argument " in message:
            fix = "leave one of the two out"
        if found := _NO_VALUE.match(message):
            action = self._option_string_actions[found[1]]
            fix = f"write the value behind the flag: {found[1]} {action.metavar or action.dest.upper()}"
        self.refuse([Problem(message, self._where(), self._brief_usage(), fix)])

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Reports all unknown flags at once, before missing arguments."""
        self._words = sys.argv[1:] if args is None else list(args)
        words = self._own_words()
        unknown = [
            self._unknown_flag(word, following)
            for word, following in itertools.zip_longest(words, words[1:], fillvalue="")
            if self._is_unknown_flag(word)
        ]
        if unknown:
            self.refuse(unknown)
        self.given.clear()
        known, more = super().parse_known_args(args, namespace)
        if more and self._subparsers is None:  # argparse would tell of them as words of `trtsmith` itself
            what = f"unrecognized arguments: {' '.join(more)}"
            fixes = "; ".join(dict.fromkeys(map(self._fix_of, more)))
            self.refuse([Problem(what, self._where(), self._brief_usage(), fixes)])
        return known, more

    def _fix_of(self, stray: str) -> str:
        """The fix for a word that is neither a flag nor an argument of the command."""
        name, sign, _ = stray.partition("=")
        if sign and f"--{name}" in self._option_string_actions:
            return f"write --{stray}"
        if sign and f"--{name}" in FLAGS:
            return self._fix_of_assignment(stray)
        before = self._words[self._words.index(stray) - 1] if stray in self._words[1:] else ""
        flag = self._option_string_actions.get(before)
        if flag is not None and flag.nargs == 0:
            return f"leave {stray} out: {before} takes no value"
        if PurePath(stray).suffix in _MODELS and self.prog == "trtsmith convert":
            return "one model a command; `trtsmith batch FOLDER` converts all models of a folder"
        wanted = _FLAG_OF.get(PurePath(stray).suffix, "")
        return f"write {wanted} {stray}" if wanted in self._option_string_actions else f"{self.prog} --help"

    def _fix_of_assignment(self, stray: str) -> str:
        """The fix for a flag of another tool as ultralytics writes it, half=True."""
        flag = f"--{stray}".partition("=")[0]
        problem = self._unknown_flag(f"--{stray}", "")
        fix = problem.fix.replace(f"--{stray}", stray).replace(flag, stray)
        return fix if FLAGS[flag].ways else f"{fix}: {problem.expected}"

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Refuses a value of another type with the problem that its parser raised, or with the flag's own words."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            told = next((one.problems for one in causes(error) if isinstance(one, UsageError)), None)
            flag = action.option_strings[0] if action.option_strings else str(action.metavar)
            meaning = f"{flag} {action.metavar or action.dest.upper()}: {_briefly(action).help}"
            own = Problem(
                str(error), f"{flag} {arg_string}", meaning, f"correct the value; {self.prog} --help"
            )
            self.refuse(told or [own])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            name = "/".join(action.option_strings) or action.metavar or action.dest
            choices = [str(choice) for choice in action.choices or ()]
            fix = self._fix_of_choice(str(name), str(value), choices)
            if isinstance(action, argparse._SubParsersAction) and PurePath(str(value)).suffix in _MODELS:
                fix = f"{self.prog} {choices[0]} {value}"
            what = f"argument {name}: invalid choice: {value!r}"
            self.refuse([Problem(what, self._where(), f"one of {', '.join(choices)}", fix)])

    def _fix_of_choice(self, name: str, value: str, choices: Sequence[str]) -> str:
        """The fix for a value that is none of the choices. name: of the argument."""
        parts = re.split("[,+]", value)
        if len(parts) > 1 and {*parts} <= {*choices}:
            return f"choose one: {', or '.join(f'{name} {part}' for part in parts)}"
        other = FLAGS.get(f"--{value}")
        if other is not None and not other.ways:
            return f"leave it out: {other.note}"
        near = nearest(value, choices)
        return (f"did you mean {near!r}? " if near else "") + f"{self.prog} --help"

    def check_first(self, flag: str, dest: str, value: Any) -> None:
        """Refuses a second value for a flag that takes one."""
        if dest in self.given:
            what = f"argument {flag}: {self.given[dest]!r} and {value!r} are given"
            self.refuse([Problem(what, self._where(), "one value", "leave one of them out")])
        self.given[dest] = value

    def _where(self) -> str:
        return f"the command line of `{self.prog}`"

    def _brief_usage(self) -> str:
        """The command with its required arguments."""
        given, needed = [], []
        for action in self._actions:
            if not action.option_strings:
                name = str(action.metavar or action.dest) + (" ..." if action.nargs in ("+", "*") else "")
                given.append(f"[{name}]" if action.nargs in ("?", "*") else name)
            elif action.required:
                needed.append(f"{action.option_strings[0]} {action.metavar or action.dest.upper()}")
        options = [] if self._subparsers is not None else ["[OPTIONS]"]
        return " ".join([self.prog, *given, *needed, *options])

    def refuse(self, problems: Sequence[Problem]) -> NoReturn:
        """Ends the command with the problems of its command line."""
        Console(color=color_of(self._words)).problems(problems)
        raise SystemExit(EXIT_USAGE)

    def _own_words(self) -> Sequence[str]:
        """The words before a subcommand, which are this parser's own."""
        words = self._words
        end = words.index("--") if "--" in words else len(words)
        if self._subparsers is not None:
            end = next((index for index, word in enumerate(words[:end]) if not word.startswith("-")), end)
        return words[:end]

    def _is_unknown_flag(self, word: str) -> bool:
        """Whether the word is an unknown flag; like argparse, takes a word with a blank for a value."""
        name = word.partition("=")[0]
        return (
            word.startswith("--")
            and len(word) > 2
            and " " not in word
            and name not in self._option_string_actions
        )

    def _unknown_flag(self, word: str, following: str) -> Problem:
        """The problem of an unknown flag. following: the next word, which may be its value.

        `elsewhere`, which a command may set, says of such a flag and its value what was expected and the fix, or ("", "").
        """
        name, sign, value = word.partition("=")
        what = f"unknown flag {name}"
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        value = value if sign or following.startswith("-") else following
        foreign = foreign_flag(self.prog, name, value, f"{sign or ' '}", flags, self._words)
        if foreign is not None:
            return Problem(
                f"{what}; it is a flag of {foreign.tool}", self._where(), foreign.here, foreign.fix
            )
        expected, fix = self.elsewhere(name, value)
        if fix:
            return Problem(what, self._where(), expected, fix)
        near = nearest(name, flags)
        fix = f"did you mean {near}? {self.prog} --help" if near else f"leave it out; see {self.prog} --help"
        return Problem(what, self._where(), f"one of the flags of `{self.prog}`", fix)

"""Turns declared options (trtsmith.options) into argparse flags.

argparse shows the message of an ArgumentTypeError as it is.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.option_values import EXPECTED, is_cost, is_count, is_seconds
from trtsmith.converter.model.options.gpu_names import parse_targets
from trtsmith.options import CHOICES, Flag, Option, blocks_of, options_of, title_of


def _number(read: Callable[[str], Any], allowed: Callable[[object], bool]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            value = read(text)
        except ValueError:
            value = None
        if not allowed(value):
            raise ArgumentTypeError(f"{text!r} is not {EXPECTED[allowed]}")
        return value

    return number


positive_int = _number(int, is_count)
positive_seconds = _number(float, is_seconds)
cost = _number(float, is_cost)


def not_negative(text: str) -> float:
    """0 or a positive number that a clock can count to."""
    return 0.0 if text.strip() == "0" else float(positive_seconds(text))


def targets(text: str) -> tuple[str, ...]:
    """sm86,RTX 4090 as ("sm86", "sm89")."""
    try:
        return parse_targets(text)
    except UsageError as error:
        (problem,) = error.problems
        raise ArgumentTypeError(f"{problem.what}: {problem.expected}; {problem.fix}") from error


class NextProfile(Action):
    """Puts the shapes so far aside for one profile, where trtexec's --profile=N begins the next."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: Any = None) -> None:
        before = list(namespace.profiles)
        given = {name: getattr(namespace, name) for name in ("shapes", "minShapes", "optShapes", "maxShapes")}
        if any(given.values()):
            before.append(Namespace(**given))
            vars(namespace).update({name: type(value)() for name, value in given.items()})
        if value != len(before):
            parser.error(
                f"argument {flag}: {value} is given for profile {len(before)}: they are numbered in order"
            )
        namespace.profiles = before


def commas(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_REPEATED: dict[str, Any] = {"action": "append", "default": []}
_FILES = _REPEATED | {"type": Path}
_OF_TYPE: Mapping[str, dict[str, Any]] = {
    "bool": {"action": "store_true"},
    "Arrays": {"type": Path},
    "StrPath": {"type": Path},
    **dict.fromkeys(("Paths", "Samples"), _FILES),
    **dict.fromkeys(("Texts", "Ranges", "Freeze", "Tolerance", "References"), _REPEATED),
    "Mapping[str, str]": _REPEATED,
    "int": {"type": positive_int},
    "float": {"type": positive_seconds},
    **{name: {} for name in ("str", *CHOICES)},
}
"""What argparse does with options of a type, or of that or None."""


def add_options(parser: ArgumentParser, options: type, terminal: type | None = None, **words: str) -> None:
    """The flags of a command. terminal: options that its function has not; they stand before those of pages and operators.

    words: by option, what the command says in the place of {} in its help.
    """
    groups: dict[str, _ActionsContainer] = {str(group.title): group for group in parser._action_groups}
    groups[""] = parser
    done: set[str] = set()
    for block in blocks_of(options):
        if terminal is not None and {"html", "ops"} & block.__annotations__.keys():
            _add(parser, terminal, groups, done, words)
        _add(parser, block, groups, done, words)
    if terminal is not None:
        _add(parser, terminal, groups, done, words)
    without = {option.name: option.default for option in options_of(options) if not option.flags}
    parser.set_defaults(**without)


def _add(
    parser: ArgumentParser,
    block: type,
    groups: dict[str, _ActionsContainer],
    done: set[str],
    words: Mapping[str, str],
) -> None:
    title = title_of(block)
    for option in options_of(block):
        if option.name in done or not option.flags:
            continue
        done.add(option.name)
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        for flag in option.flags:
            place = groups[title]
            if flag.alone:
                key = f"{title}: {flag.alone}"
                groups[key] = groups.get(key) or place.add_mutually_exclusive_group()
                place = groups[key]
            arguments = _arguments(option, flag) | flag.arguments
            if "{}" in arguments["help"]:
                arguments["help"] = arguments["help"].replace("{}", words[option.name])
            added = place.add_argument(*flag.names or [f"--{option.name.replace('_', '-')}"], **arguments)
            added.common = flag.common  # type: ignore[attr-defined]


def _arguments(option: Option, flag: Flag) -> dict[str, Any]:
    """What argparse is told of a flag besides what it says itself."""
    if flag is not option.flags[0]:
        return {} if flag.default is None else {"default": flag.default}
    known: dict[str, Any] = {"dest": option.name, "default": option.default}
    if "action" in flag.arguments:
        return known
    several = flag.arguments.get("type") in (targets, commas)  # in one value
    return known if several else known | _OF_TYPE[option.type.removesuffix(" | None")]

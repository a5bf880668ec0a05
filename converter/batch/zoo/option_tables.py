"""Reads tables of options: their keys are long flags of a command without the dashes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trtsmith.converter.batch.zoo.option_words import shown
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommand
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
from trtsmith.converter.model.options.near import nearest


@dataclass(frozen=True, eq=False)
class GivenOption:
    """An option as the file has it. name: its key; dest: the option, as argparse calls it; keys: where it stands."""

    name: str
    dest: str
    value: Any
    keys: Keys


OptionLayer = Mapping[str, GivenOption]
"""Options of one table, by dest."""


def read_options(
    table: Mapping[str, Any],
    keys: Keys,
    command: ZooCommand,
    findings: ZooFindings,
    others: Collection[str] = (),
) -> OptionLayer:
    """The options in a table; keys of `others` are not options, and for someone else to read."""
    known = command.options()
    layer: dict[str, GivenOption] = {}
    for name, value in table.items():
        if name in others:
            continue
        if name not in known:
            _unknown(name, (*keys, name), command, findings, others)
            continue
        dest = known[name].dest
        if dest in layer:
            what = f"{name} and {layer[dest].name} are one option"
            findings.add((*keys, name), what, "one of them", "remove the other")
            continue
        layer[dest] = GivenOption(name, dest, value, (*keys, name))
    return layer


def merged(command: ZooCommand, *layers: OptionLayer) -> OptionLayer:
    """All options; a later layer's is in the place of an earlier one's, and of those that cannot stand beside it."""
    exclusive = command.exclusive()
    result: dict[str, GivenOption] = {}
    for layer in layers:
        out = {other for dest in layer for other in exclusive.get(dest, ())}
        result = {dest: given for dest, given in result.items() if dest not in out} | dict(layer)
    return result


def check_keys(
    table: Mapping[str, Any], keys: Keys, known: Collection[str], of: str, findings: ZooFindings
) -> None:
    """A problem for each key that is none of the known ones. of: what has these keys, for messages."""
    for name in table:
        if name not in known:
            expected, fix = f"of {of}: {', '.join(known)}", did_you_mean(name, known)
            findings.add((*keys, name), f"unknown key {name!r}", expected, fix)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A fix for a name that is not known: the nearest that is."""
    near = nearest(name, known)
    return "correct it, or remove it" if near is None else f"did you mean {near!r}?"


def is_table(value: Any, keys: Keys, findings: ZooFindings) -> bool:
    """Whether it is one; a problem if not."""
    if isinstance(value, dict):
        return True
    name = next((key for key in reversed(keys) if isinstance(key, str)), "it")
    findings.add(
        keys, f"{name} is {shown(value)}, and no table", "a table", f"write [{name}], or {name} = {{ ... }}"
    )
    return False


def _unknown(
    name: str, keys: Keys, command: ZooCommand, findings: ZooFindings, others: Collection[str]
) -> None:
    if name in command.refused:
        expected = f"options of `trtsmith {command.name}` that are a task's own"
        what = f"a zoo cannot give {name}: {command.refused[name]}"
        findings.add(keys, what, expected, "remove it")
        return
    expected = (
        f"a key of its own ({', '.join(others)}), or a long flag of `trtsmith {command.name}` without dashes"
    )
    if not others:
        expected = f"a long flag of `trtsmith {command.name}` without its dashes"
    fix = did_you_mean(name, [*command.options(), *others])
    findings.add(keys, f"unknown key {name!r}", expected, fix)

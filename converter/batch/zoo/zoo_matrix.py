"""Reads [matrix]: axes with their values, and the combinations that are left out."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtsmith.converter.batch.zoo.needs_table import NeedsLayer, read_needs
from trtsmith.converter.batch.zoo.option_tables import (
    GivenOption,
    OptionLayer,
    check_keys,
    did_you_mean,
    is_table,
    read_options,
)
from trtsmith.converter.batch.zoo.option_words import NAMED, shown
from trtsmith.converter.batch.zoo.task_names import folded, name_fault
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommand
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings

DEFAULT = "default"
"""The value of an axis with which it says nothing: what holds without the axis holds."""

_NO_AXES = ("model", "path", "name", "matrix", "needs", "bench", "defaults")
_EXAMPLE = '{ fast = { precision = "fp16", optimization-level = 2 }, exact = { precision = "fp32" } }'


@dataclass(frozen=True)
class AxisValue:
    """One value of an axis. label: its name, in those of tasks. options, needs: what it sets."""

    label: str
    options: OptionLayer = field(default_factory=dict)
    needs: NeedsLayer = field(default_factory=dict)


@dataclass(frozen=True)
class MatrixAxis:
    """An axis. option: the option, by dest, whose values these are; "" where each value is a set of options.

    values: none where a model leaves out the zoo's axis of that name.
    """

    name: str
    option: str
    values: tuple[AxisValue, ...]
    keys: Keys

    def sets(self) -> frozenset[str]:
        """The options, by dest, that its values set."""
        return frozenset(dest for value in self.values for dest in value.options)


@dataclass(frozen=True, eq=False)
class Exclusion:
    """Combinations that are left out: where each axis that is named has one of the labels, of models that match."""

    labels: Mapping[str, tuple[str, ...]]
    models: tuple[str, ...]
    keys: Keys

    def matches(self, model: str, variant: Mapping[str, str]) -> bool:
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models) and all(
            variant.get(axis) in labels for axis, labels in self.labels.items()
        )


@dataclass(frozen=True)
class ZooMatrix:
    """axes: by name. without: whether a model leaves the zoo's matrix out."""

    axes: Mapping[str, MatrixAxis] = field(default_factory=dict)
    exclusions: tuple[Exclusion, ...] = ()
    without: bool = False


def read_matrix(
    value: Any, keys: Keys, command: ZooCommand, findings: ZooFindings, *, of_model: bool = False
) -> ZooMatrix:
    """The zoo's matrix, or that of a model (or of all models that an entry names)."""
    if of_model and value is False:
        return ZooMatrix(without=True)
    if not is_table(value, keys, findings):
        return ZooMatrix()
    axes: dict[str, MatrixAxis] = {}
    for name, given in value.items():
        if name != "exclude":
            axis = _read_axis(name, given, (*keys, name), command, findings, of_model=of_model)
            axes |= {} if axis is None else {name: axis}
    _check_overlap(axes, findings)
    exclusions = _read_exclusions(value.get("exclude", []), (*keys, "exclude"), findings, of_model=of_model)
    return ZooMatrix(axes, exclusions)


def _read_axis(
    name: str, given: Any, keys: Keys, command: ZooCommand, findings: ZooFindings, *, of_model: bool
) -> MatrixAxis | None:
    if of_model and given is False:
        return MatrixAxis(name, "", (), keys)
    if name in _NO_AXES or name_fault(name):
        what, rest = (
            f"an axis cannot be called {name!r}",
            name_fault(name) or "the word has another meaning here",
        )
        findings.add(keys, what, f"an option, or another name: {rest}", "give it another name")
        return None
    action = command.options().get(name)
    expected = f"an array of its values, or a table {{ NAME = value }}; {DEFAULT!r} leaves the option out"
    if action is None and (not isinstance(given, dict) or name in command.refused):
        _no_axis(name, keys, command, findings)
        return None
    if not isinstance(given, (list, dict)) or not given:
        findings.add(keys, f"the axis {name} is {shown(given)}", expected, f"{name} = [...], or remove it")
        return None
    values: list[AxisValue] = []
    places: list[Keys] = []
    items = list(given.items()) if isinstance(given, dict) else list(enumerate(given))
    for key, inner in items:
        place = (*keys, key)
        if action is None:
            value = _bundle(str(key), inner, place, command, findings)
        else:
            label = str(key) if isinstance(given, dict) else _label(name, inner)
            value = _value(label, GivenOption(name, action.dest, inner, place), findings)
        if value is not None:
            values.append(value)
            places.append(place)
    values = _once(name, values, places, findings)
    option = "" if action is None else action.dest
    return MatrixAxis(name, option, tuple(values), keys) if values else None


def _no_axis(name: str, keys: Keys, command: ZooCommand, findings: ZooFindings) -> None:
    if name in command.refused:
        what = f"a zoo cannot give {name}: {command.refused[name]}"
        findings.add(keys, what, "options that are a task's own", "remove it")
        return
    what = f"{name!r} is neither an option nor a table of sets of options"
    expected = f"a long flag of `trtsmith {command.name}` without its dashes; or sets of options by name, as {_EXAMPLE}"
    findings.add(keys, what, expected, did_you_mean(name, [*command.options(), "exclude"]))


def _bundle(
    label: str, table: Any, keys: Keys, command: ZooCommand, findings: ZooFindings
) -> AxisValue | None:
    """A value of an axis that is no option's: a set of options, with needs."""
    if not is_table(table, keys, findings):
        return None
    options = read_options(table, keys, command, findings, ("needs",))
    needs = read_needs(table["needs"], (*keys, "needs"), findings) if "needs" in table else {}
    return AxisValue(label, options, needs)


def _value(label: str, given: GivenOption, findings: ZooFindings) -> AxisValue | None:
    """A value of an option's axis."""
    if label == "" or (
        given.name in NAMED and isinstance(given.keys[-1], str) and isinstance(given.value, str)
    ):
        what = f"the value of the axis {given.name} is {shown(given.value)}"
        expected = f"a table {{ NAME = value }}, as {given.name} = {{ small = ..., large = ... }}: its values need names"
        findings.add(given.keys, what, expected, "give it a name")
        return None
    says_nothing = given.value == DEFAULT
    return AxisValue(label, {} if says_nothing else {given.dest: given})


def _label(axis: str, value: Any) -> str:
    """The name of a value in an array; "" for one that needs to be given one."""
    if isinstance(value, bool):
        return axis if value else f"no-{axis}"
    if isinstance(value, (str, int, float)):
        return str(value)
    plain = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return "+".join(value) if plain else ""


def _once(axis: str, values: list[AxisValue], places: list[Keys], findings: ZooFindings) -> list[AxisValue]:
    """The values, each label once; findings for those that come again, and that cannot be part of a folder's name."""
    seen: dict[str, AxisValue] = {}
    for value, keys in zip(values, places, strict=True):
        if fault := name_fault(value.label):
            what = f"the value {value.label!r} of the axis {axis} cannot be part of a folder's name: {fault}"
            findings.add(keys, what, "a name", f"give it one: {axis} = {{ NAME = {shown(value.label)} }}")
        if folded(value.label) in seen:
            what = f"the axis {axis} has the value {value.label!r} twice"
            what += "" if seen[folded(value.label)].label == value.label else ", but for the case of letters"
            findings.add(keys, what, "each once", "remove one")
        seen.setdefault(folded(value.label), value)
    return list(seen.values())


def _check_overlap(axes: Mapping[str, MatrixAxis], findings: ZooFindings) -> None:
    """Two axes that set one option would each undo the other."""
    owner: dict[str, str] = {}
    for axis in axes.values():
        for dest in sorted(axis.sets()):
            if dest in owner:
                what = f"the axes {owner[dest]} and {axis.name} both set {dest.replace('_', '-')}"
                findings.add(axis.keys, what, "an option in one axis", "remove it from one of them")
            owner[dest] = axis.name


def _read_exclusions(
    value: Any, keys: Keys, findings: ZooFindings, *, of_model: bool
) -> tuple[Exclusion, ...]:
    if not isinstance(value, list):
        expected = 'an array of tables, as exclude = [{ target = "sm86", precision = "bf16" }]'
        findings.add(keys, f"exclude is {shown(value)}", expected, "write it so")
        return ()
    found = []
    for position, table in enumerate(value):
        place = (*keys, position)
        if not is_table(table, place, findings):
            continue
        if not table:
            findings.add(place, "exclude has an empty table", "the values of some axes", "remove it")
            continue
        if of_model and "model" in table:
            check_keys(table, place, [key for key in table if key != "model"], "exclude in a model", findings)
        models = _labels("model", table["model"], (*place, "model"), findings) if "model" in table else ("*",)
        labels = {
            axis: _labels(axis, given, (*place, axis), findings)
            for axis, given in table.items()
            if axis != "model"
        }
        found.append(Exclusion(labels, models, place))
    return tuple(found)


def _labels(axis: str, given: Any, keys: Keys, findings: ZooFindings) -> tuple[str, ...]:
    """One label, or several of which each matches."""
    labels = tuple(_label(axis, one) for one in (given if isinstance(given, list) else [given]))
    if not labels or "" in labels:
        what = f"{axis} in exclude is {shown(given)}"
        findings.add(keys, what, "a value of that axis, or an array of them", "correct it")
    return labels

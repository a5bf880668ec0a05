"""Reads [matrix] and [needs], and combines the axes of a model, its own and the zoo's, into variants."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from argparse import Action
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trtsmith.converter.batch.amounts import bytes_of
from trtsmith.converter.batch.task import Needs
from trtsmith.converter.batch.zoo.model_sources import MOST_BYTES, folded, name_fault
from trtsmith.converter.batch.zoo.zoo_file import Given, shown
from trtsmith.converter.batch.zoo.zoo_options import OptionLayer, OptionReader, kind_of_action

DEFAULT = "default"
"""The value of an axis with which it says nothing: what holds without the axis holds."""

MOST_TASKS = 100_000
"""Of one zoo: more are a mistake in a matrix."""

_NO_AXES = ("model", "path", "name", "matrix", "needs", "bench", "tune", "defaults")
_EXAMPLE = '{ fast = { precision = "fp16", optimization-level = 2 }, exact = { precision = "fp32" } }'
_UNUSED = "exclude matches nothing"
_ONE_AXIS = "an option in one axis"

_MOST = 2**31
_MEMORY = re.compile(r"\d+(?:\.\d+)? *[KMGT]i?B")
_TIME = re.compile(r"(?:(\d+)h)? *(?:(\d+)m)? *(?:(\d+(?:\.\d+)?)s)?")
_GPU = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9 _-]{0,63})?")


@dataclass(frozen=True)
class Setting:
    """The options and needs that a table or an axis value sets. needs: by field name of Needs."""

    options: OptionLayer = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MatrixAxis:
    """A matrix axis. option: dest of the option whose values these are; "" if each value is a set of options.

    values: by label; none where a model leaves out the zoo's axis of that name.
    """

    given: Given
    option: str = ""
    values: Mapping[str, Setting] = field(default_factory=dict)

    def sets(self) -> frozenset[str]:
        """Returns the options, by dest, that its values set."""
        return frozenset(dest for value in self.values.values() for dest in value.options)


@dataclass(frozen=True, eq=False)
class Exclusion:
    """Excluded combinations: each named axis has one of the labels. models: patterns of their names."""

    labels: Mapping[str, tuple[str, ...]]
    models: tuple[str, ...]
    given: Given

    def matches(self, model: str, variant: Mapping[str, str]) -> bool:
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models) and all(
            variant.get(axis) in labels for axis, labels in self.labels.items()
        )


@dataclass(frozen=True)
class ZooMatrix:
    """The axes of a zoo or model. axes: by name. without: whether a model leaves the zoo's matrix out."""

    axes: Mapping[str, MatrixAxis] = field(default_factory=dict)
    exclusions: tuple[Exclusion, ...] = ()
    without: bool = False


def read_needs(given: Given) -> dict[str, Any]:
    """Reads the needs in a table; a wrong one is left out and is a problem."""
    if not given.is_table():
        return {}
    given.check_keys(tuple(NEEDS), "needs")
    layer: dict[str, Any] = {}
    for name, (field_name, read, expected, example) in NEEDS.items():
        if name in given:
            found = read(given[name].value)
            layer |= {} if found is None else {field_name: found}
            if found is None:
                what = f"{name} cannot be {shown(given[name].value)}"
                given[name].wrong(what, expected, f"{name} = {example}")
    return layer


def _cpus(value: Any) -> float | None:
    return float(value) if _is_number(value) and 0 < value <= 4096 else None


def _memory(value: Any) -> int | None:
    if not isinstance(value, str) or len(value) >= 40 or not _MEMORY.fullmatch(value):
        return None
    try:
        mib = math.ceil(bytes_of(value) / 2**20)
    except ValueError:  # more than 64 bits
        return None
    return mib if 0 < mib < _MOST else None


def _gpu(value: Any) -> str | None:
    if isinstance(value, bool):
        return "any" if value else ""
    return value if isinstance(value, str) and _GPU.fullmatch(value) else None


def _timeout(value: Any) -> float | None:
    seconds = float(value) if _is_number(value) else 0.0
    if isinstance(value, str) and value and len(value) < 40 and (found := _TIME.fullmatch(value.strip())):
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    return seconds if 0 < seconds < _MOST else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


NEEDS = {
    "cpus": ("cpus", _cpus, "a number of cores", "2"),
    "memory": ("memory_mib", _memory, "a size with its unit: KiB, MiB, GiB, TiB, KB, MB, GB or TB", '"8GiB"'),
    "gpu": ("gpu", _gpu, 'a GPU as Ray calls its type, "any", or "" for none', '"any"'),
    "timeout": ("timeout_s", _timeout, 'seconds, or a time such as "90s", "20m", "1h30m"', '"20m"'),
}


def read_matrix(given: Given, reader: OptionReader, *, of_model: bool) -> ZooMatrix:
    """Reads the matrix of the zoo or of an entry."""
    if of_model and given.value is False:
        return ZooMatrix(without=True)
    if not given.is_table():
        return ZooMatrix()
    read = (_read_axis(inner, reader, of_model) for inner in given.inner() if inner.name != "exclude")
    axes = {axis.given.name: axis for axis in read if axis is not None}
    owner: dict[str, str] = {}
    for axis in axes.values():  # two axes that set one option would each undo the other
        for dest in sorted(axis.sets()):
            if dest in owner:
                what = f"the axes {owner[dest]} and {axis.given.name} both set {dest.replace('_', '-')}"
                axis.given.wrong(what, _ONE_AXIS, "remove it from one of them")
            owner[dest] = axis.given.name
    return ZooMatrix(axes, _read_exclusions(given["exclude"], of_model) if "exclude" in given else ())


def _read_axis(given: Given, reader: OptionReader, of_model: bool) -> MatrixAxis | None:
    name = given.name
    if of_model and given.value is False:
        return MatrixAxis(given)
    if name in _NO_AXES or name_fault(name):
        expected = f"an option, or another name: {name_fault(name) or 'the word has another meaning here'}"
        given.wrong(f"an axis cannot be called {name!r}", expected, "give it another name")
        return None
    action = reader.actions.get(name)
    if action is None and (not isinstance(given.value, dict) or name in reader.command.refused):
        expected = f"a long flag of `trtsmith {reader.command.name}` without its dashes"
        expected += f"; or sets of options by name, as {_EXAMPLE}"
        what = f"{name!r} is neither an option nor a table of sets of options"
        reader.unknown(given, what, expected, ("exclude",))
        return None
    if not isinstance(given.value, (list, dict)) or not given.value:
        expected = f"an array of its values, or a table {{ NAME = value }}; {DEFAULT!r} leaves the option out"
        given.wrong(f"the axis {name} is {shown(given.value)}", expected, f"{name} = [...], or remove it")
        return None
    values: dict[str, Setting] = {}
    seen: dict[str, str] = {}
    for inner in given.inner():
        found = _options(inner, reader) if action is None else _value(inner, given, action)
        if found is not None and _is_new(found[0], seen, inner, name):
            values[found[0]] = found[1]
    axis = MatrixAxis(given, "" if action is None else action.dest, values)
    _check_same(axis, reader)
    return axis if values else None


def _options(inner: Given, reader: OptionReader) -> tuple[str, Setting] | None:
    """A set of options, and its name; None for what is no table, which is a problem then."""
    if not inner.is_table():
        return None
    needs = read_needs(inner["needs"]) if "needs" in inner else {}
    return inner.name, Setting(reader.read(inner, ("needs",)), needs)


def _value(inner: Given, axis: Given, action: Action) -> tuple[str, Setting] | None:
    """A value of an option's axis, and its name; None for a value that needs a name, which is a problem then."""
    one = Given(inner.file, inner.keys, axis.name, inner.value)
    named = isinstance(axis.value, dict)
    label = str(inner.keys[-1]) if named else _label(axis.name, inner.value)
    if label == "" or (named and kind_of_action(action).named and isinstance(inner.value, str)):
        what = f"the value of the axis {axis.name} is {shown(inner.value)}"
        form = "a table { NAME = value }"
        expected = f"{form}, as {axis.name} = {{ small = ..., large = ... }}: its values need names"
        inner.wrong(what, expected, "give it a name")
        return None
    return label, Setting({} if inner.value == DEFAULT else {action.dest: one})


def _label(axis: str, value: Any) -> str:
    """The name of a value in an array; "" for one that needs to be given one."""
    if isinstance(value, bool):
        return axis if value else f"no-{axis}"
    if isinstance(value, (str, int, float)):
        return str(value)
    plain = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return "+".join(value) if plain else ""


def _is_new(label: str, seen: dict[str, str], given: Given, axis: str) -> bool:
    """Whether no value before has this label; a problem if one has, or if it cannot be part of a folder's name.

    seen: labels by what they are when folded; this one is added.
    """
    if fault := name_fault(label):
        what = f"the value {label!r} of the axis {axis} cannot be part of a folder's name: {fault}"
        given.wrong(what, "a name", f"give it one: {axis} = {{ NAME = {shown(label)} }}")
    same = seen.get(folded(label))
    seen.setdefault(folded(label), label)
    if same is not None:
        what = f"the axis {axis} has the value {label!r} twice"
        given.wrong(
            what + ("" if same == label else ", but for the case of letters"), "each once", "remove one"
        )
    return same is None


def _check_same(axis: MatrixAxis, reader: OptionReader) -> None:
    """A problem for values of an option that are written differently, and mean the same."""
    options = [value.options[axis.option] for value in axis.values.values() if axis.option in value.options]
    for place, one in enumerate(options):
        read = reader.value(one)
        same = next((other for other in options[:place] if reader.value(other) == read), None)
        if same is not None and read is not None:
            what = f"{shown(same.value)} and {shown(one.value)} of the axis {axis.given.name} are the same"
            one.wrong(what, "each value once", "remove one")


def _read_exclusions(given: Given, of_model: bool) -> tuple[Exclusion, ...]:
    if not isinstance(given.value, list):
        expected = 'an array of tables, as exclude = [{ target = "sm86", precision = "bf16" }]'
        given.wrong(f"exclude is {shown(given.value)}", expected, "write it so")
        return ()
    found = []
    for table in given.inner():
        if not table.is_table():
            continue
        if not table.value:
            table.wrong("exclude has an empty table", "the values of some axes", "remove it")
            continue
        labels = {one.name: _labels(one) for one in table.inner()}
        if of_model and "model" in table:
            table.check_keys([key for key in table.value if key != "model"], "exclude in a model")
        models = labels.pop("model", ("*",))
        found.append(Exclusion(labels, models, table))
    return tuple(found)


def _labels(given: Given) -> tuple[str, ...]:
    """One label, or several of which each matches."""
    several = given.value if isinstance(given.value, list) else [given.value]
    labels = tuple(_label(given.name, one) for one in several)
    if not labels or "" in labels:
        what = f"{given.name} in exclude is {shown(given.value)}"
        given.wrong(what, "a value of that axis, or an array of them", "correct it")
    return labels


class VariantMaker:
    """Makes the variants of models, and knows at the end which exclusions matched none."""

    def __init__(self, general: Setting, matrix: ZooMatrix, reader: OptionReader) -> None:
        self._general, self._matrix, self._reader = general, matrix, reader
        self._count = 0
        self._exclusions: dict[Exclusion, bool] = dict.fromkeys(matrix.exclusions, False)
        self._labels = {name: dict.fromkeys(axis.values) for name, axis in matrix.axes.items()}

    def variants(
        self, model: str, entry: Given, special: Setting, matrix: ZooMatrix
    ) -> list[tuple[dict[str, str], Setting]]:
        """Returns labels by axis and settings of each variant that is not excluded. special: the model's own settings.

        None, and a problem, where nothing is left or they are too many.
        """
        of_zoo, own = self._axes(special, matrix)
        axes = [*of_zoo, *own]
        for axis in axes:
            self._labels.setdefault(axis.given.name, {}).update(dict.fromkeys(axis.values))
        exclusions = (*self._matrix.exclusions, *matrix.exclusions)
        for exclusion in exclusions:
            self._exclusions.setdefault(exclusion, False)
        before = self._count
        self._count += math.prod(len(axis.values) for axis in axes)
        if self._count > MOST_TASKS:
            if before <= MOST_TASKS:
                what = f"up to this model there are {self._count:,} tasks"
                entry.wrong(what, f"at most {MOST_TASKS:,}", "remove values of axes, or make several zoos")
            return []
        made = []
        for chosen in itertools.product(*(axis.values for axis in axes)):
            labels = {axis.given.name: label for axis, label in zip(axes, chosen, strict=True)}
            matching = [one for one in exclusions if one.matches(model, labels)]
            self._exclusions |= dict.fromkeys(matching, True)
            if not matching:
                values = [axis.values[label] for axis, label in zip(axes, chosen, strict=True)]
                layers = [self._general, *values[: len(of_zoo)], special, *values[len(of_zoo) :]]
                needs = {name: need for layer in layers for name, need in layer.needs.items()}
                options = self._reader.merged(*(layer.options for layer in layers))
                made.append((labels, Setting(options, needs)))
        if not made:
            what = f"exclude leaves no variant of {model!r}"
            entry.wrong(what, "at least one", "remove the model, or an exclude")
        _check_names(model, entry, (variant_name(labels) for labels, _ in made))
        return made

    def finish(self, *, complete: bool) -> None:
        """Records a problem for each exclusion that matched nothing. complete: whether all models were found."""
        for exclusion in (one for one, used in self._exclusions.items() if not used):
            what, expected = _UNUSED, "combinations that there are"
            for axis, labels in exclusion.labels.items():
                known = self._labels.get(axis)
                if known is None:
                    what = f"exclude names {axis!r}, and there is no such axis"
                    expected = _listed(self._labels)
                elif unknown := [label for label in labels if label not in known]:
                    what, expected = f"the axis {axis} has no value {unknown[0]!r}", _listed(known)
            if complete or what != _UNUSED:
                exclusion.given.wrong(what, expected, "correct it, or remove it")

    def _axes(self, special: Setting, matrix: ZooMatrix) -> tuple[list[MatrixAxis], list[MatrixAxis]]:
        """The axes of the zoo, without those that the model sets itself, and those of the model."""
        options = special.options
        own = [axis for axis in matrix.axes.values() if axis.values]
        for axis in own:
            if axis.option in options:
                what = f"{axis.given.name} is an option of the model, and an axis of its matrix"
                options[axis.option].wrong(what, "one of them", "remove one")
        of_zoo = [
            axis
            for name, axis in self._matrix.axes.items()
            if not matrix.without and name not in matrix.axes and axis.option not in options
        ]
        for axis, other in itertools.product(own, of_zoo):
            if both := sorted(axis.sets() & other.sets()):
                what = f"this axis and the zoo's axis {other.given.name} both set {both[0].replace('_', '-')}"
                axis.given.wrong(what, _ONE_AXIS, f"{other.given.name} = false in the model's matrix")
        return of_zoo, own


def needs_of(setting: Setting) -> Needs:
    return Needs(**setting.needs)


def variant_name(labels: Mapping[str, str]) -> str:
    """Returns the part of the task's name after the model's; "" without axes."""
    return "-".join(labels.values())


def _check_names(model: str, entry: Given, names: Iterator[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if len(name.encode(errors="replace")) > MOST_BYTES:
            what = f"the name of the variant is longer than {MOST_BYTES} bytes: {name[:60]}..."
            fix = "give the values of its axes short names: axis = { NAME = value }"
            entry.wrong(what, "a folder's name", fix)
            return
        if folded(name) in seen:
            what = f"two variants of {model!r} are called {name!r}"
            entry.wrong(what, "a folder for each", "give a value another name")
            return
        seen.add(folded(name))


def _listed(names: Mapping[str, object]) -> str:
    first = [*itertools.islice(names, 20), *(["..."] if len(names) > 20 else [])]
    return "one of " + ", ".join(first) if first else "no matrix, no exclude"

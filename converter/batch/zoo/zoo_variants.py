"""Combines the axes of a model, its own and the zoo's, into variants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trtsmith.converter.batch.task import Needs
from trtsmith.converter.batch.zoo.needs_table import needs_of
from trtsmith.converter.batch.zoo.option_tables import OptionLayer, merged
from trtsmith.converter.batch.zoo.task_names import MOST_BYTES, folded
from trtsmith.converter.batch.zoo.zoo_commands import ZooCommand
from trtsmith.converter.batch.zoo.zoo_entries import ZooModel, ZooSettings
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings
from trtsmith.converter.batch.zoo.zoo_matrix import AxisValue, Exclusion, MatrixAxis

MOST_TASKS = 100_000
"""Of one zoo: more are a mistake in a matrix."""

_UNUSED = "exclude matches nothing"


@dataclass(frozen=True)
class ModelVariant:
    """labels: by axis. options: all that hold, of `convert`."""

    labels: Mapping[str, str]
    options: OptionLayer
    needs: Needs

    @property
    def name(self) -> str:
        """The part of the task's name behind the model's; "" without axes."""
        return "-".join(self.labels.values())


class VariantMaker:
    """Makes the variants of models, and knows at the end which exclusions matched none."""

    def __init__(self, defaults: ZooSettings, command: ZooCommand, findings: ZooFindings) -> None:
        self._defaults, self._command, self._findings = defaults, command, findings
        self._count = 0
        self._exclusions: dict[Exclusion, bool] = dict.fromkeys(defaults.matrix.exclusions, False)
        self._labels = {axis.name: _labels(axis) for axis in defaults.matrix.axes.values()}

    def variants(self, model: ZooModel) -> list[ModelVariant]:
        """Those that no exclusion takes out; none, and a finding, where nothing is left or they are too many."""
        of_zoo, own = self._axes(model)
        axes = [*of_zoo, *own]
        for axis in axes:
            self._labels.setdefault(axis.name, {}).update(_labels(axis))
        exclusions = (*self._defaults.matrix.exclusions, *model.settings.matrix.exclusions)
        for exclusion in exclusions:
            self._exclusions.setdefault(exclusion, False)
        before = self._count
        self._count += math.prod(len(axis.values) for axis in axes)
        if self._count > MOST_TASKS:
            if before <= MOST_TASKS:
                what = f"up to this model there are {self._count:,} tasks"
                fix = "remove values of axes, or make several zoos"
                self._findings.add(model.keys, what, f"at most {MOST_TASKS:,}", fix)
            return []
        combinations = itertools.product(*(axis.values for axis in axes))
        made = [self._variant(model, of_zoo, own, values) for values in combinations]
        left = [variant for variant in made if not self._excluded(model.name, variant.labels, exclusions)]
        if not left:
            what = f"exclude leaves no variant of {model.name!r}"
            self._findings.add(model.keys, what, "at least one", "remove the model, or an exclude")
        self._check_names(model, left)
        return left

    def finish(self, *, complete: bool) -> None:
        """A finding for each exclusion that left nothing out. complete: whether all models were found that it may be for."""
        for exclusion in (one for one, used in self._exclusions.items() if not used):
            what, expected = _UNUSED, "combinations that there are"
            for axis, labels in exclusion.labels.items():
                known = self._labels.get(axis)
                if known is None:
                    what, expected = (
                        f"exclude names {axis!r}, and there is no such axis",
                        _listed(self._labels),
                    )
                elif not set(labels) <= known.keys():
                    unknown = next(label for label in labels if label not in known)
                    what, expected = f"the axis {axis} has no value {unknown!r}", _listed(known)
            if not complete and what == _UNUSED:
                continue
            self._findings.add(exclusion.keys, what, expected, "correct it, or remove it")

    def _axes(self, model: ZooModel) -> tuple[list[MatrixAxis], list[MatrixAxis]]:
        """Of the zoo, without those that the model decides itself; and of the model."""
        matrix, options = model.settings.matrix, model.settings.options
        own = [axis for axis in matrix.axes.values() if axis.values]
        for axis in own:
            if axis.option in options:
                what = f"{axis.name} is an option of the model, and an axis of its matrix"
                self._findings.add(options[axis.option].keys, what, "one of them", "remove one")
        if matrix.without:
            return [], own
        of_zoo = [
            axis
            for axis in self._defaults.matrix.axes.values()
            if axis.name not in matrix.axes and axis.option not in options
        ]
        for axis, other in itertools.product(own, of_zoo):
            if both := sorted(axis.sets() & other.sets()):
                what = f"this axis and the zoo's axis {other.name} both set {both[0].replace('_', '-')}"
                self._findings.add(
                    axis.keys, what, "an option in one axis", f"{other.name} = false in the model's matrix"
                )
        return of_zoo, own

    def _variant(
        self,
        model: ZooModel,
        of_zoo: list[MatrixAxis],
        own: list[MatrixAxis],
        values: tuple[AxisValue, ...],
    ) -> ModelVariant:
        general, special = values[: len(of_zoo)], values[len(of_zoo) :]
        layers = [
            self._defaults.options,
            *(value.options for value in general),
            model.settings.options,
            *(value.options for value in special),
        ]
        needs = [
            self._defaults.needs,
            *(value.needs for value in general),
            model.settings.needs,
            *(value.needs for value in special),
        ]
        labels = {axis.name: value.label for axis, value in zip([*of_zoo, *own], values, strict=True)}
        return ModelVariant(labels, merged(self._command, *layers), needs_of(*needs))

    def _excluded(self, model: str, labels: Mapping[str, str], exclusions: Iterable[Exclusion]) -> bool:
        matching = [one for one in exclusions if one.matches(model, labels)]
        self._exclusions |= dict.fromkeys(matching, True)
        return bool(matching)

    def _check_names(self, model: ZooModel, variants: list[ModelVariant]) -> None:
        seen: dict[str, ModelVariant] = {}
        for variant in variants:
            if len(variant.name.encode(errors="replace")) > MOST_BYTES:
                what = f"the name of the variant is longer than {MOST_BYTES} bytes: {variant.name[:60]}..."
                fix = "give the values of its axes short names: axis = { NAME = value }"
                self._findings.add(model.keys, what, "a folder's name", fix)
                return
            if folded(variant.name) in seen:
                what = f"two variants of {model.name!r} are called {variant.name!r}"
                self._findings.add(model.keys, what, "a folder for each", "give a value another name")
                return
            seen[folded(variant.name)] = variant


def _labels(axis: MatrixAxis) -> dict[str, None]:
    return {value.label: None for value in axis.values}


def _listed(names: Iterable[str]) -> str:
    return "one of " + ", ".join(_first(names, 20)) if any(True for _ in names) else "no matrix, no exclude"


def _first(names: Iterable[str], most: int) -> Iterator[str]:
    for count, name in enumerate(names):
        if count == most:
            yield "..."
            return
        yield name

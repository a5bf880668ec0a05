"""Makes sets of inputs for an engine: one for each of the smallest, usual and largest sizes of its profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shape_tensors import values_as_input
from trtsmith.converter.model.shapes import InputSpec, ShapeRange, profile_for
from trtsmith.converter.verify.inputs import generate_inputs

ENDS = ("min", "opt", "max")


@dataclass(frozen=True)
class InputSet:
    """Inputs of the model by name, those that are frozen in the engine too. at: "min", "opt", "max"; "" for the only set."""

    at: str
    feeds: Mapping[str, np.ndarray]


def sets_of_profile(
    model: Model,
    specs: Sequence[InputSpec],
    info: EngineInfo,
    profile: int,
    given: Mapping[str, ShapeRange],
    frozen: Mapping[str, np.ndarray],
) -> tuple[tuple[InputSet, ...], tuple[str, ...]]:
    """Made-up inputs at each end of the engine's profile and at its usual sizes, and what they were taken for.

    given: sizes from --shapes, instead of the profile's. frozen: values of inputs that the engine has as constants.
    Ends that are equal are run once. UsageError for sizes that do not fit the model.
    """
    sizes, values = _ranges(specs, info, profile)
    sizes |= profile_for(specs, sizes | dict(given))
    sets: list[InputSet] = []
    seen: list[dict[str, tuple[int, ...]]] = []
    meanings: dict[str, None] = {}
    for end in ENDS:
        shapes = {name: getattr(r, end) for name, r in sizes.items()}
        numbers = {name: getattr(r, end) for name, r in values.items()}
        if shapes | numbers in seen:
            continue
        seen.append(shapes | numbers)
        made = generate_inputs(model, specs, shapes)
        exact = {
            spec.name: values_as_input(spec, ShapeRange(*(numbers[spec.name],) * 3))
            for spec in specs
            if spec.name in numbers
        }
        meanings |= dict.fromkeys(made.meanings)
        sets.append(InputSet(end, made.arrays | exact | dict(frozen)))
    if len(sets) == 1:
        sets = [InputSet("", sets[0].feeds)]
    return tuple(sets), tuple(meanings)


def _ranges(
    specs: Sequence[InputSpec], info: EngineInfo, profile: int
) -> tuple[dict[str, ShapeRange], dict[str, ShapeRange]]:
    """The ranges of dynamic sizes and of shape tensors' values. For an input that the engine lacks, 1."""
    tensors = {tensor.name: tensor for tensor in info.inputs}
    sizes, values = {}, {}
    for spec in specs:
        tensor = tensors.get(spec.name)
        found = tensor.profiles[profile] if tensor is not None and profile < len(tensor.profiles) else None
        if found is not None and found.values:
            values[spec.name] = ShapeRange(found.min, found.opt, found.max)
        if None not in spec.shape:
            continue
        if found is not None and not found.values:
            sizes[spec.name] = ShapeRange(found.min, found.opt, found.max)
        else:
            have = tensor.shape if tensor is not None else tuple(size or 1 for size in spec.shape)
            sizes[spec.name] = ShapeRange(have, have, have)
    return sizes, values

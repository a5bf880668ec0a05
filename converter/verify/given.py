"""Reads the user's inputs and expected outputs, from .npz files or arrays, and checks them against the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtsmith.converter.model.arrays import ArraySource, as_declared, load_arrays, named_source, told_source
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import InputSpec
from trtsmith.importers.problem import Problem


def told(inputs: ArraySource | None, expected: ArraySource | None) -> str:
    """What a comparison rests on, in a word: "generated", the files, or that arrays were given."""
    said = "generated" if inputs is None else told_source(inputs)
    return said if expected is None else f"{said}, outputs expected: {told_source(expected)}"


def load_expected(source: ArraySource, outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """The model's outputs by name, from a file or as arrays. UsageError if one is missing, or is none of the model's."""
    return fitting_outputs(load_arrays(source, "--expected"), outputs, named_source("--expected", source))


def fitting_outputs(
    arrays: Mapping[str, np.ndarray], outputs: Sequence[str], where: str
) -> dict[str, np.ndarray]:
    """The model's outputs by name, of arrays that a user gave at `where`. UsageError as for `load_expected`."""
    problems = []
    for name in outputs:
        if name not in arrays:
            what, have = f"no array for output {name!r}", ", ".join(map(repr, arrays)) or "nothing"
            expected = f"an array for each of {', '.join(map(repr, outputs))}"
            problems.append(Problem(what, where, expected, f"it holds {have}: add it"))
    for name in arrays:
        if name not in outputs:
            what, expected = f"the model has no output {name!r}", "one of: " + ", ".join(map(repr, outputs))
            problems.append(Problem(what, where, expected, "correct or remove the array"))
    if problems:
        raise UsageError(problems)
    return {name: arrays[name] for name in outputs}


def load_inputs(source: ArraySource, specs: Sequence[InputSpec]) -> dict[str, np.ndarray]:
    """Inputs by name from an .npz file or as arrays. UsageError if they do not fit the model's inputs."""
    return fitting_inputs(load_arrays(source, "--inputs"), specs, named_source("--inputs", source))


def fitting_inputs(
    arrays: Mapping[str, np.ndarray], specs: Sequence[InputSpec], where: str
) -> dict[str, np.ndarray]:
    """The model's inputs by name, of arrays that a user gave at `where`. UsageError if they do not fit."""
    feeds = dict(arrays)
    problems = []
    for spec in specs:
        value = feeds.get(spec.name)
        if value is None:
            have = ", ".join(feeds) or "nothing"
            problems.append(
                Problem(
                    f"no array for input {spec.name!r}",
                    where,
                    f"an array {spec.name!r}",
                    f"it holds {have}: add it",
                )
            )
            continue
        feeds[spec.name] = value = as_declared(value, spec.dtype)
        fits = len(value.shape) == len(spec.shape) and all(
            d is None or d == size for d, size in zip(spec.shape, value.shape, strict=True)
        )
        if not fits or str(value.dtype) != spec.dtype:
            what = f"input {spec.name!r} is {value.dtype}{list(value.shape)}"
            dims = ", ".join(
                str(d) if d is not None else n or "?" for d, n in zip(spec.shape, spec.names, strict=True)
            )
            problems.append(
                Problem(what, where, f"{spec.dtype}[{dims}]", "save an array of that type and shape")
            )
    if problems:
        raise UsageError(problems)
    return {spec.name: feeds[spec.name] for spec in specs}

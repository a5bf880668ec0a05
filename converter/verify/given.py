"""Reads the user's inputs and expected outputs, and checks them against the model.

They come from .npz files, as arrays, or of `verify` from Polygraphy's JSON, of one iteration or several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from trtsmith.converter.model.arrays import ArraySource, as_declared, load_arrays, named_source, told_source
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import InputSpec
from trtsmith.converter.verify.polygraphy_files import load_inputs_json, load_outputs_json, of_types
from trtsmith.importers.dtypes import dtype_name
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


Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class GivenInputs:
    """Inputs from files. arrays: by name for each iteration. where: flag and file of each. words: for the verdict."""

    arrays: tuple[dict[str, np.ndarray], ...]
    where: tuple[str, ...]
    words: str

    def fitting(self, specs: Sequence[InputSpec]) -> list[dict[str, np.ndarray]]:
        """The arrays of inputs that the model has. UsageError if they do not fit it."""
        types = {spec.name: spec.dtype for spec in specs}
        return [
            fitting_inputs(of_types(one, types), specs, where)
            for one, where in zip(self.arrays, self.where, strict=True)
        ]

    def names(self) -> tuple[str, ...]:
        """Names of the iterations in comparisons; "" for a single one."""
        return _names(len(self.arrays))


def given_inputs(inputs: ArraySource | None, load_inputs: Sequence[Path]) -> GivenInputs | None:
    """What --inputs (.npz) or --load-inputs (Polygraphy's JSON) name; None without either. UsageError."""
    if inputs is not None:
        place = named_source("--inputs", inputs)
        return GivenInputs((load_arrays(inputs, "--inputs"),), (place,), told_source(inputs))
    if not load_inputs:
        return None
    read = list(load_inputs_json(load_inputs, "--load-inputs"))
    names = _names(len(read))
    where = [
        f"--load-inputs {file}" + (f", {at}" if at else "") for (file, _), at in zip(read, names, strict=True)
    ]
    return GivenInputs(tuple(arrays for _, arrays in read), tuple(where), ", ".join(map(str, load_inputs)))


def given_outputs(
    expected: ArraySource | None,
    load_outputs: Path | None,
    outputs: Sequence[onnx.ValueInfoProto],
    inputs: GivenInputs | None,
) -> list[dict[str, np.ndarray]] | None:
    """The outputs that --expected (.npz) or --load-outputs (JSON) name, for each iteration of the inputs; None without.

    outputs: the model's. UsageError if they do not fit these, or are of another number than the inputs.
    """
    names = [value.name for value in outputs]
    if expected is not None:
        found, where = [load_expected(expected, names)], named_source("--expected", expected)
    elif load_outputs is not None:
        types = {value.name: dtype_name(value.type.tensor_type.elem_type or 1) for value in outputs}
        where = f"--load-outputs {load_outputs}"
        read = load_outputs_json(load_outputs, "--load-outputs")
        found = [
            of_types(fitting_outputs(one, names, where + (f", {at}" if at else "")), types)
            for one, at in zip(read, _names(len(read)), strict=True)
        ]
    else:
        return None
    count = len(inputs.arrays) if inputs is not None else 0
    if len(found) != count:
        raise UsageError(
            f"there are outputs of {len(found)} iterations, and inputs of {count}",
            f"{where}; {'; '.join(inputs.where) if inputs is not None else 'no inputs'}",
            "outputs for each iteration of the inputs",
            "save both in one run: polygraphy run MODEL ... --save-inputs IN.json --save-outputs OUT.json",
        )
    return found


def _names(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(f"iteration {index}" for index in range(count))

"""Reads the inputs and outputs of `verify`, one iteration or several, and checks them against the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from trtsmith.converter.model.arrays import ArraySource, load_arrays, named_source, told_source
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.shapes import InputSpec
from trtsmith.converter.verify.given import fitting_inputs, fitting_outputs, load_expected
from trtsmith.converter.verify.polygraphy_files import load_inputs_json, load_outputs_json, of_types
from trtsmith.importers.dtypes import dtype_name

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

"""Reads calibration samples: files of arrays with several sets of inputs along their first axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trtsmith.converter.base.arrays import ArraySource, load_arrays, named_source
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec
from trtsmith.converter.verify.given import fitting_line, of_any_batch
from trtsmith.importers.problem import Problem

Sample = dict[str, np.ndarray]


def load_samples(sources: Sequence[ArraySource], specs: Sequence[InputSpec]) -> list[Sample]:
    """Sets of inputs, from .npz files or arrays. Raises UsageError with all that do not fit the model's inputs."""
    samples: list[Sample] = []
    problems: list[Problem] = []
    for source in sources:
        arrays = load_arrays(source, "--calibration")
        faults = [p for spec in specs for p in _faults(arrays, spec, source)]
        loose = of_any_batch(specs)
        if any(_faults(arrays, spec, source) for spec in loose) and all(a.size for a in arrays.values()):
            line = fitting_line(arrays, loose, source, "--calibration")
            faults = [replace(problem, fix=line or problem.fix) for problem in faults]
        problems += faults
        if not faults:
            samples += split({spec.name: arrays[spec.name] for spec in specs}, specs)
    if problems:
        raise UsageError(problems)
    return samples


def split(arrays: Sample, specs: Sequence[InputSpec]) -> list[Sample]:
    """Splits arrays along the first axis into sets: of the model's size if that is fixed, else of size 1.

    Arrays that cannot be divided alike are one set, as they are.
    """
    steps = {_steps(arrays[spec.name], spec) for spec in specs}
    if len(steps) != 1 or not (count := steps.pop()):
        return [arrays]
    parts = {name: np.split(array, count) for name, array in arrays.items()}
    return [{name: part[index] for name, part in parts.items()} for index in range(count)]


def _steps(array: np.ndarray, spec: InputSpec) -> int:
    size = (spec.shape[0] or 1) if spec.shape else 0
    return len(array) // size if size and len(array) % size == 0 else 0


def _faults(arrays: Sample, spec: InputSpec, source: ArraySource) -> list[Problem]:
    where = named_source("--calibration", source)
    shape = ", ".join(
        str(d) if d is not None else n or "?" for d, n in zip(spec.shape, spec.names, strict=True)
    )
    wanted = f"{spec.dtype}[{shape}], with more samples along the first axis if you like"
    value = arrays.get(spec.name)
    if value is None:
        return [Problem(f"no array for input {spec.name!r}", where, wanted, "add it to the file")]
    rest = list(zip(spec.shape, value.shape, strict=False))[1:]
    fits = value.ndim == len(spec.shape) and all(d is None or d == size for d, size in rest)
    first = spec.shape[0] if spec.shape else None
    if not fits or str(value.dtype) != spec.dtype or (first and value.shape[0] % first) or not value.size:
        what = f"input {spec.name!r} is {value.dtype}{list(value.shape)}"
        return [Problem(what, where, wanted, "save an array of that type and shape")]
    return []

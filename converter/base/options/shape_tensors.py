"""Reads profiles of shape tensors: integer inputs whose values, not whose sizes, decide the shapes in the engine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem

_FORM = "NAME=[1,1]:[2,3]:[8,8] (min:opt:max), or one value for all three"


def parse_values(texts: Sequence[str]) -> dict[str, ShapeRange]:
    """Parses values by input name from --values flags. Raises UsageError for anything else, and unless min <= opt <= max."""
    ranges: dict[str, ShapeRange] = {}
    for text in texts:
        where = f"--values {text}"
        name, _, value = text.rpartition("=")
        parts = value.split(":")
        read = [_integers(part) for part in (parts if len(parts) == 3 else parts * 3)]
        low, usual, high = read if len(read) == 3 else (None, None, None)
        if not name or low is None or usual is None or high is None:
            fix = "--values sizes=[1,1]:[2,3]:[8,8]; a float that decides sizes is a constant: --freeze scale=0.5"
            raise UsageError(f"{text!r} has values that are not whole numbers", where, _FORM, fix)
        if name in ranges:
            what = f"values of {name!r} are given twice"
            raise UsageError(what, where, "one flag for each input", "remove one")
        if len({len(low), len(usual), len(high)}) > 1 or any(
            not a <= b <= c for a, b, c in zip(low, usual, high, strict=False)
        ):
            raise UsageError(
                f"the values of {name!r} contradict each other",
                where,
                "as many values in each part, and min <= opt <= max for each",
                "give the values from smallest to largest",
            )
        ranges[name] = ShapeRange(low, usual, high)
    return ranges


def _integers(text: str) -> tuple[int, ...] | None:
    """3 or [2,3] as (3,) or (2, 3); None for anything else, and for what no int64 holds."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    values = read if isinstance(read, list) else [read]
    good = all(isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in values)
    return tuple(values) if good else None


def value_profile(
    specs: Iterable[InputSpec],
    shape_tensors: frozenset[str],
    given: Mapping[str, ShapeRange],
    examples: Mapping[str, np.ndarray],
) -> dict[str, ShapeRange]:
    """Returns values for every shape tensor: those given, else an example's, which the engine then takes alone.

    UsageError lists every shape tensor that lacks values, with a flag to paste, and values that fit no input.
    """
    known = {spec.name: spec for spec in specs}
    problems = []
    for name, values in given.items():
        where = f"--values {name}"
        spec = known.get(name)
        if spec is None:
            expected = f"one of {', '.join(map(repr, known)) or '(none)'}"
            problems.append(Problem(f"the model has no input {name!r}", where, expected, "correct the name"))
        elif spec.dtype not in ("int32", "int64") or len(spec.shape) > 1 or None in spec.shape:
            what = f"input {name!r} is {spec.dtype} of rank {len(spec.shape)}"
            expected = "an integer scalar, or a vector of fixed length, that decides shapes"
            fix = (
                f"--freeze {shlex.quote(name)}=VALUE" if spec.dtype.startswith("float") else "remove the flag"
            )
            problems.append(Problem(what, where, expected, fix))
        elif len(values.opt) != _count(spec):
            what = f"{counted(len(values.opt), 'value')} given for input {name!r}"
            problems.append(
                Problem(what, where, counted(_count(spec), "value"), f"--values {suggest_values(spec)}")
            )
    profile = dict(given)
    for name in sorted(shape_tensors - given.keys()):
        spec = known.get(name)
        if spec is None or None in spec.shape:
            continue  # TensorRT says what it makes of it
        if name in examples:
            only = tuple(int(value) for value in examples[name].reshape(-1))
            profile[name] = ShapeRange(only, only, only)
            continue
        problems.append(
            Problem(
                f"the values of input {name!r} decide shapes, and are not known",
                f"input {name!r}",
                f"the smallest, usual and largest values: {_FORM}",
                f"--values {suggest_values(spec)}   (with your own values), "
                f"or --freeze {shlex.quote(name)}=VALUE for a single one",
            )
        )
    if problems:
        raise UsageError(problems)
    return profile


def suggest_values(spec: InputSpec) -> str:
    """Suggests a flag value to paste: 1 to 8, quoted for a shell."""
    count = _count(spec)
    low, high = (
        json.dumps([value] * count if spec.shape else value, separators=(",", ":")) for value in (1, 8)
    )
    return shlex.quote(f"{spec.name}={low}:{low}:{high}")


def values_as_input(spec: InputSpec, values: ShapeRange) -> np.ndarray:
    """Returns the usual values as the input's array."""
    shape = tuple(size or 0 for size in spec.shape)
    return np.array(values.opt, np.dtype(spec.dtype)).reshape(shape)


def _count(spec: InputSpec) -> int:
    return int(np.prod([size or 0 for size in spec.shape], dtype=np.int64))

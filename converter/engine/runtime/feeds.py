"""Checks that arrays fit the engine, and explains wrong names, types, shapes and values before TensorRT sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.importers.problem import Problem


def name_problems(inputs: Sequence[TensorSpec], given: Iterable[str], engine: str) -> list[Problem]:
    """Returns a problem for each input without an array, and for each array without an input. engine: its file."""
    names, wanted = list(given), {spec.name for spec in inputs}
    have = ", ".join(map(repr, names)) or "nothing"
    problems = [
        Problem(
            f"There is no array for the input {spec.name!r}.",
            f"input {spec.name!r}",
            f"{spec} by that name; given: {have}",
            f"add the array; `trtsmith run {quote(engine)} --list` shows the inputs",
        )
        for spec in inputs
        if spec.name not in names
    ]
    problems += [
        Problem(
            f"The engine has no input {name!r}.",
            f"array {name!r}",
            "one of: " + (", ".join(repr(spec.name) for spec in inputs) or "(the engine has no inputs)"),
            "correct the name, or leave the array out",
        )
        for name in names
        if name not in wanted
    ]
    return problems


def check_profile(count: int, index: int, engine: str) -> None:
    """Raises UsageError if the engine, a file, has no optimization profile of that number."""
    if not 0 <= index < count:
        raise UsageError(
            f"The engine has no optimization profile {index}.",
            f"profile {index}",
            f"0 to {count - 1}" if count > 1 else "0, the only one",
            f"give another number; `trtsmith run {quote(engine)} --list` shows the profiles",
        )


def array_problems(
    spec: TensorSpec, dtype: str, shape: tuple[int, ...], profile: int, model_dtype: str | None = None
) -> list[Problem]:
    """Finds the faults of an array of this dtype and shape as the input `spec` under an optimization profile.

    model_dtype: the input's type in the model, where the engine's is another one.
    """
    problems = []
    where = f"input {spec.name!r}"
    wanted = model_dtype or spec.dtype
    if dtype != wanted:
        also = f" ({spec.dtype} in the engine)" if wanted != spec.dtype else ""
        problems.append(
            Problem(
                f"The array of the input {spec.name!r} is of the type {dtype}.",
                where,
                f"{wanted}{also}",
                f"convert it: array.astype({wanted!r})",
            )
        )
    fits = len(shape) == len(spec.shape) and all(
        want in (-1, size) for want, size in zip(spec.shape, shape, strict=True)
    )
    if not fits:
        problems.append(
            Problem(
                f"The array of the input {spec.name!r} has the shape {list(shape)}.",
                where,
                f"the engine's {spec}",
                "give an array of that shape; trailing and leading dimensions of 1 count",
            )
        )
    elif not spec.is_shape_tensor:
        problems += _range_problems(spec, "shape", shape, profile)
    return problems


def profile_problems(spec: TensorSpec, array: np.ndarray, profile: int) -> list[Problem]:
    """Finds the faults of an array's shape, or a shape tensor's values, under an optimization profile."""
    if spec.is_shape_tensor:
        return value_problems(spec, array, profile)
    return _range_problems(spec, "shape", array.shape, profile)


def value_problems(spec: TensorSpec, values: np.ndarray, profile: int) -> list[Problem]:
    """Finds the faults of a shape tensor's values under an optimization profile."""
    return _range_problems(spec, "values", tuple(int(value) for value in values.reshape(-1)), profile)


def _range_problems(spec: TensorSpec, what: str, sizes: tuple[int, ...], index: int) -> list[Problem]:
    if index >= len(spec.profiles):
        return []
    allowed = spec.profiles[index]
    nearest = tuple(
        min(max(size, low), high) for size, low, high in zip(sizes, allowed.min, allowed.max, strict=True)
    )
    if nearest == sizes:
        return []
    others = [
        number
        for number, other in enumerate(spec.profiles)
        if all(low <= size <= high for size, low, high in zip(sizes, other.min, other.max, strict=True))
    ]
    fix = f"nearest allowed: {list(nearest)}"
    if others:
        fix += f"; profile {others[0]} allows it: --profile {others[0]}"
    else:
        fix += f"; or build the engine with a profile that covers it: {_flag(spec, allowed, sizes)}"
    return [
        Problem(
            f"The {what} {list(sizes)} of the input {spec.name!r} "
            f"{'is' if what == 'shape' else 'are'} outside the optimization profile.",
            f"input {spec.name!r}, profile {index}",
            f"{what} from {list(allowed.min)} to {list(allowed.max)}",
            fix,
        )
    ]


def _flag(spec: TensorSpec, allowed: Profile, sizes: tuple[int, ...]) -> str:
    """The flag of `convert` for a profile that is widened to take the sizes too."""
    low = [min(pair) for pair in zip(allowed.min, sizes, strict=True)]
    high = [max(pair) for pair in zip(allowed.max, sizes, strict=True)]
    if spec.is_shape_tensor:
        parts = [str(list(part)).replace(" ", "") for part in (low, allowed.opt, high)]
        return "--values " + quote(f"{spec.name}={':'.join(parts)}")
    parts = ["x".join(map(str, part)) for part in (low, allowed.opt, high)]
    return "--shapes " + quote(f"{spec.name}={':'.join(parts)}")

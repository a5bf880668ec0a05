"""Chooses the shapes at which an engine is timed: from its profile, the user's flags or the user's arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.importers.problem import Problem

POINTS = ("min", "opt", "max")


@dataclass(frozen=True)
class Point:
    """One set of inputs, in the model's types. label: "min", "opt", "max", "shapes" or "inputs".

    shape_tensors: inputs whose values decide shapes.
    """

    label: str
    feeds: Mapping[str, np.ndarray]
    shape_tensors: frozenset[str] = frozenset()

    def sizes(self) -> dict[str, list[int]]:
        """Returns the shape of each input; of a shape tensor, its values."""
        return {
            name: array.reshape(-1).tolist() if name in self.shape_tensors else list(array.shape)
            for name, array in self.feeds.items()
        }

    def batch(self) -> int:
        """Returns the first dimension of the first input that has one; 1 where none has."""
        return next((array.shape[0] for array in self.feeds.values() if array.ndim), 1)


def check_points(at: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the profile points named by the user, each once. Raises UsageError for unknown ones."""
    unknown = [name for name in at if name not in POINTS]
    if unknown or not at:
        what = (
            f"there is no point {unknown[0]!r} of a profile" if unknown else "no point of a profile is named"
        )
        where, expected = f"--at {','.join(at)}", f"some of {', '.join(POINTS)}"
        raise UsageError(Problem(what, where, expected, "--at min,opt,max"))
    return tuple(dict.fromkeys(at))


def points_of(
    info: EngineInfo,
    labels: Sequence[str],
    shapes: Mapping[str, ShapeRange],
    io_types: Sequence[IoType] = (),
    model: Model | None = None,
) -> list[Point]:
    """Generates inputs, not all zero, at points of profile 0 or at the user's shapes.

    shapes: of --shapes; the inputs that it leaves out are at the profile's usual shape. model: the
    one that the engine was built from, if it is there: inputs then suit what reads them.
    UsageError for shapes that are no single ones, or outside of the profile.
    """
    if shapes:
        _check(info, shapes)
        return [Point("shapes", _feeds(info, "opt", shapes, io_types, model), _shape_tensors(info))]
    if not any(-1 in spec.shape or spec.is_shape_tensor for spec in info.inputs):
        labels = ("opt",)  # the three are one
    tensors = _shape_tensors(info)
    return [Point(label, _feeds(info, label, {}, io_types, model), tensors) for label in labels]


def given_point(info: EngineInfo, arrays: Mapping[str, np.ndarray]) -> Point:
    """Takes the user's arrays; whether they fit is checked when the engine runs."""
    return Point("inputs", arrays, _shape_tensors(info))


def _shape_tensors(info: EngineInfo) -> frozenset[str]:
    return frozenset(spec.name for spec in info.inputs if spec.is_shape_tensor)


def _feeds(
    info: EngineInfo,
    label: str,
    shapes: Mapping[str, ShapeRange],
    io_types: Sequence[IoType],
    model: Model | None,
) -> dict[str, np.ndarray]:
    before = {io.name: io.before for io in io_types}
    specs, sizes, values = [], {}, {}
    for spec in info.inputs:
        dtype = before.get(spec.name, spec.dtype)
        at = tuple(getattr(spec.profiles[0], label)) if spec.profiles else spec.shape
        if spec.is_shape_tensor:
            values[spec.name] = np.array(at, dtype).reshape(spec.shape)
            continue
        size = shapes[spec.name].opt if spec.name in shapes else at
        specs.append(
            InputSpec(spec.name, dtype, tuple(d if d >= 0 else None for d in spec.shape), ("",) * len(at))
        )
        sizes[spec.name] = size
    made = generate_inputs(model, specs, sizes).arrays | values
    return {spec.name: made[spec.name] for spec in info.inputs}


def _check(info: EngineInfo, shapes: Mapping[str, ShapeRange]) -> None:
    problems = list(_problems({spec.name: spec for spec in info.inputs}, shapes))
    if problems:
        raise UsageError(problems)


def _problems(known: Mapping[str, TensorSpec], shapes: Mapping[str, ShapeRange]) -> Iterator[Problem]:
    for name, given in shapes.items():
        where = f"--shapes {name}={given}"
        if name not in known:
            have = ", ".join(map(repr, known)) or "none"
            what = f"the engine has no input {name!r}"
            yield Problem(what, where, f"one of its inputs: {have}", "correct the name")
        elif not given.min == given.opt == given.max:
            usual = "x".join(map(str, given.opt))
            fix = f"--shapes {quote(f'{name}={usual}')}, or --at min,opt,max"
            yield Problem(f"the shapes of {name!r} are a range", where, "one shape to time an engine at", fix)
        elif not _inside(known[name], given.opt):
            what = f"the engine does not accept the shape of {name!r}"
            fix = "give a shape inside the profile, or convert the model with another one"
            yield Problem(what, where, _allowed(known[name]), fix)


def _inside(spec: TensorSpec, shape: tuple[int, ...]) -> bool:
    if spec.is_shape_tensor or len(shape) != len(spec.shape):
        return False
    low, high = (spec.profiles[0].min, spec.profiles[0].max) if spec.profiles else (spec.shape, spec.shape)
    return all(a <= size <= b for a, size, b in zip(low, shape, high, strict=True))


def _allowed(spec: TensorSpec) -> str:
    if spec.is_shape_tensor:
        return f"no shape: the values of {spec.name!r} decide other shapes, and --inputs gives them"
    if not spec.profiles:
        return f"{spec}"
    low, _, high = (
        "x".join(map(str, sizes))
        for sizes in (spec.profiles[0].min, spec.profiles[0].opt, spec.profiles[0].max)
    )
    return f"{spec}, from {low} to {high}"

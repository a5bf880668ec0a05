"""Generates inputs at the smallest, usual and largest sizes of a profile."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trtsmith.converter.base.options.shape_tensors import values_as_input
from trtsmith.converter.base.options.shapes import InputSpec, ShapeRange, Sizes, profile_for
from trtsmith.converter.engine.runtime.tensors import EngineInfo
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.inputs import SEED, Generated, generate_inputs
from trtsmith.converter.verify.no_values import first_nan
from trtsmith.converter.verify.verdict import ENDS


@dataclass(frozen=True)
class InputSet:
    """Inputs of the model by name, also those frozen in the engine. at: "min", "opt", "max"; "" for the only set."""

    at: str
    feeds: Mapping[str, np.ndarray]


def _sizes(sizes: Sizes) -> str:
    return "x".join(map(str, sizes))


def _values(values: Sizes) -> str:
    return "[" + ",".join(map(str, values)) + "]"


@dataclass(frozen=True)
class Generation:
    """Generates inputs at the ends of a profile.

    specs: inputs that are not frozen. sizes, values: ranges of dynamic inputs' sizes, and of shape tensors' values.
    frozen: values of inputs that the engine has as constants.
    """

    model: Model
    specs: Sequence[InputSpec]
    sizes: Mapping[str, ShapeRange] = field(default_factory=dict)
    values: Mapping[str, ShapeRange] = field(default_factory=dict)
    frozen: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def fixed(self) -> frozenset[str]:
        """Names inputs whose values are not drawn: they are frozen, or the profile has them."""
        return frozenset((*self.frozen, *self.values))

    @property
    def drawn(self) -> frozenset[str]:
        """Inputs whose values are drawn."""
        return frozenset(spec.name for spec in self.specs) - self.fixed

    def words(self, end: str) -> str:
        """Words the sizes and values at an end, as `images=1x3x64x64`."""
        told = [f"{name}={_sizes(getattr(r, end))}" for name, r in self.sizes.items()]
        return ", ".join((*told, *(f"{name}={_values(getattr(r, end))}" for name, r in self.values.items())))

    def flags(self, low: str, high: str) -> str:
        """Writes the profile from one end to another, as the command line takes it."""
        told = [
            f"{flag} {shlex.quote(':'.join((f'{name}={word(getattr(r, low))}', word(r.opt), word(getattr(r, high)))))}"
            for flag, ranges, word in (("--shapes", self.sizes, _sizes), ("--values", self.values, _values))
            for name, r in ranges.items()
        ]
        return " ".join(told)

    def numbers(self, end: str) -> dict[str, Sizes]:
        """Lists sizes and values of inputs at an end."""
        return self.shapes(end) | {name: getattr(r, end) for name, r in self.values.items()}

    def shapes(self, end: str) -> dict[str, Sizes]:
        """Lists sizes of dynamic inputs at an end."""
        return {name: getattr(r, end) for name, r in self.sizes.items()}

    def at(self, end: str, seed: int = SEED) -> Generated:
        """Generates inputs at an end. Raises UsageError for a shape too large for this machine's memory."""
        made = generate_inputs(self.model, self.specs, self.shapes(end), seed)
        exact = {
            spec.name: values_as_input(spec, ShapeRange(*(getattr(self.values[spec.name], end),) * 3))
            for spec in self.specs
            if spec.name in self.values
        }
        return Generated(made.arrays | exact | dict(self.frozen), made.meanings)

    def sets(self) -> tuple[tuple[InputSet, ...], tuple[str, ...]]:
        """Generates inputs at each end, with their assumed meanings. Ends that are equal are one set."""
        ends: list[str] = []
        for end in ENDS:
            if self.numbers(end) not in map(self.numbers, ends):
                ends.append(end)
        made = {end: self.at(end) for end in ends}
        sets = tuple(InputSet(end if len(ends) > 1 else "", one.arrays) for end, one in made.items())
        return sets, tuple(dict.fromkeys(told for one in made.values() for told in one.meanings))


@dataclass(frozen=True)
class InputSource:
    """The source of inputs.

    words: for the verdict. generation: how they were generated, if they were. fixed: inputs that have one value; None: no
    output is looked at for whether it proves something. meanings: what generated inputs were taken for. unused: a warning
    for given arrays that are no inputs, if there are any.
    """

    words: str = ""
    generation: Generation | None = None
    fixed: frozenset[str] | None = None
    meanings: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def ends(self, known: Collection[str]) -> Iterator[Mapping[str, np.ndarray]]:
        """Generates inputs at the ends of the profile, except for the known ones."""
        if self.generation is not None:
            yield from (self.generation.at(end).arrays for end in ("min", "max") if end not in known)

    def warnings(self, sets: Iterable[Mapping[str, np.ndarray]]) -> tuple[str, ...]:
        """Warns of unused arrays, of NaN, and if all given inputs are constant: agreement on them proves little."""
        values: dict[str, set[Any]] = {}
        nan = ""
        for feeds in sets if self.generation is None else ():
            nan = nan or first_nan("input", feeds.items())
            for name, array in feeds.items():
                if array.size > 1 and name not in (self.fixed or ()):
                    values.setdefault(name, set()).update((array.min(), array.max()))
        if nan:
            return (
                *self.unused,
                f"{nan}: an output that depends on it is compared with NaN, which proves nothing",
            )
        if not values or any(len(found) > 1 for found in values.values()):
            return self.unused
        told = ", ".join(f"{name!r} is {next(iter(found))} everywhere" for name, found in values.items())
        return (
            *self.unused,
            f"the inputs are constant ({told}), and prove little; give inputs that vary, or none: they are generated",
        )


NO_SOURCE = InputSource()


def generation_of_engine(
    model: Model,
    specs: Sequence[InputSpec],
    info: EngineInfo,
    profile: int,
    given: Mapping[str, ShapeRange],
    frozen: Mapping[str, np.ndarray],
) -> Generation:
    """Makes a Generation for the ends of an engine's profile.

    given: sizes from --shapes, instead of the profile's. UsageError for sizes that do not fit the model.
    """
    sizes, values = _ranges(specs, info, profile)
    sizes |= profile_for(specs, sizes | dict(given))
    return Generation(model, specs, sizes, values, frozen)


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

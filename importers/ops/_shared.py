"""Defines helpers that operators share: checks of sizes and of attributes' values, a tensor's axis, and helpers of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trtsmith.importers.opdef import AliasedNode, Field, Fields, Kind, Refusal

Made = dict[str, np.ndarray]

STRANGE = (np.nan, np.inf, -np.inf, 1e30, -1e30)
"""Numbers that are none, infinite, or beyond all integers."""


def put_every(step: int, array: np.ndarray, values: Sequence[float]) -> None:
    """Replaces every so many-th element by these values, in turn."""
    flat = array.reshape(-1)
    flat[::step] = np.resize(values, flat[::step].shape)


def put_some(rng: np.random.Generator, share: float, array: np.ndarray, values: Sequence[float]) -> None:
    """Replaces a share of the elements, at random, by any of these values."""
    chosen = rng.random(array.shape) < share
    array[chosen] = rng.choice(values, int(chosen.sum()))


def then(make: Callable[[np.random.Generator], Made], change: Callable[..., None] | None, *more: Any) -> Any:
    """Makes a case's inputs by `make`, and then changes them by `change(rng, inputs, *more)` if there is one."""

    def made(rng: np.random.Generator) -> Made:
        inputs = make(rng)
        if change is not None:
            change(rng, inputs, *more)
        return inputs

    return made


FLAG = (0, 1)
"""The values of a field or an attribute that is one."""


def flag(name: str, doc: str, default: int = 0) -> Field:
    """Makes a field that is 0 or 1."""
    return Field(name, Kind.INT, doc, default=default, allowed=FLAG)


def value_refusal(node: AliasedNode, limits: Mapping[str, Any]) -> Refusal | None:
    """Refuses the first attribute whose value is outside its limits.

    limits: by names of attributes, the values that one may have (a tuple), the least of them (a number), or the least and
    the largest (a list).
    """
    for name, limit in limits.items():
        value = node.attrs[name]
        if isinstance(limit, tuple):
            fits, expected = value in limit, " or ".join([", ".join(map(str, limit[:-1])), str(limit[-1])])
        elif isinstance(limit, list):
            fits, expected = limit[0] <= value <= limit[1], f"{limit[0]} to {limit[1]}"
        else:
            fits, expected = value >= limit, f"{limit} or more"
        if not fits:
            return Refusal(f"{name} = {value!r}", f"{name}: {expected}", f"correct {name!r}")
    return None


AXIS = Field("axis", Kind.INT, "the axis, from the end where negative", default=0)


def axis_of(fields: Fields, shapes: Any) -> int:
    """Returns the axis of the input x, counted from the front."""
    rank = len(shapes["x"])
    for axis in range(rank):
        if fields["axis"] in (axis, axis - rank):
            return axis
    raise IndexError(f"x of {rank} dimensions has no axis {fields['axis']}")


def check_axis(fields: Fields, shapes: Any) -> list[str]:
    """Checks, as an OpDef's `check`, whether the input x has the axis."""
    x = shapes.get("x")
    if x is None or -len(x) <= fields["axis"] < len(x):
        return []
    return [f"axis = {fields['axis']}, but x has {len(x)} dimensions"]


def size_of(shapes: Any, port: str, axis: int) -> Any:
    """Returns a size of an input, or None if it is unknown or the input is absent."""
    return shapes[port][axis] if port in shapes else None


def size_faults(shapes: Any, *rules: tuple[Any, ...]) -> list[str]:
    """Returns a sentence for each known size that breaks its rule. A rule is (port, axis, size), or (port, axis, port, axis)
    for two equal sizes, or (port, axis, size, how that size is computed). A size of None is unknown.
    """
    faults = []
    for port, axis, wanted, *more in rules:
        found, of_port = size_of(shapes, port, axis), isinstance(wanted, str)
        right = size_of(shapes, wanted, more[0]) if of_port else wanted
        if found is None or right is None or found == right:
            continue
        if of_port:
            faults.append(f"{port}[{axis}] = {found}, but {wanted}[{more[0]}] = {right}")
        else:
            faults.append(f"{port}[{axis}] = {found}, not {right}" + "".join(f" = {how}" for how in more))
    return faults


MOST = 2**31 - 1


def faults_of_int32(shapes: Any, *places: tuple[str, int]) -> list[str]:
    """Returns a sentence for each (port, axis) whose known size int32 cannot hold. A negative axis counts from the end."""
    return [
        f"{port}[{axis}] = {size}, more than 2^31 - 1"
        for port, axis in places
        if port in shapes and -len(shapes[port]) <= axis < len(shapes[port])
        if (size := shapes[port][axis]) is not None and size > MOST
    ]

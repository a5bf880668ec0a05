"""Defines what operators share: rules of sizes and of attributes' values, an axis of a tensor, and helpers of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trtsmith.importers.opdef import AliasedNode, Field, Fields, Kind, Refusal

Made = dict[str, np.ndarray]

STRANGE = (np.nan, np.inf, -np.inf, 1e30, -1e30)
"""Numbers that are none, infinite, or beyond all integers."""


def put_every(step: int, array: np.ndarray, values: Sequence[float]) -> None:
    """These values, one after the other, in the place of every so many elements."""
    flat = array.reshape(-1)
    flat[::step] = np.resize(values, flat[::step].shape)


def put_some(rng: np.random.Generator, share: float, array: np.ndarray, values: Sequence[float]) -> None:
    """Any of these values in the place of a share of the elements."""
    chosen = rng.random(array.shape) < share
    array[chosen] = rng.choice(values, int(chosen.sum()))


def then(make: Callable[[np.random.Generator], Made], change: Callable[..., None] | None, *more: Any) -> Any:
    """A case's inputs: those that `make` gives, after `change(rng, inputs, *more)` where there is one."""

    def made(rng: np.random.Generator) -> Made:
        inputs = make(rng)
        if change is not None:
            change(rng, inputs, *more)
        return inputs

    return made


FLAG = (0, 1)
"""The values of a field or an attribute that is one."""


def flag(name: str, doc: str, default: int = 0) -> Field:
    """A field that is 0 or 1."""
    return Field(name, Kind.INT, doc, default=default, allowed=FLAG)


def value_refusal(node: AliasedNode, limits: Mapping[str, Any]) -> Refusal | None:
    """Of the first attribute that has a value which it may not have.

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
    """The axis of the input x, from its start."""
    rank = len(shapes["x"])
    for axis in range(rank):
        if fields["axis"] in (axis, axis - rank):
            return axis
    raise IndexError(f"x of {rank} dimensions has no axis {fields['axis']}")


def check_axis(fields: Fields, shapes: Any) -> list[str]:
    """`check` of an OpDef: whether the input x has the axis."""
    x = shapes.get("x")
    if x is None or -len(x) <= fields["axis"] < len(x):
        return []
    return [f"axis = {fields['axis']}, but x has {len(x)} dimensions"]


def size_of(shapes: Any, port: str, axis: int) -> Any:
    """A size of an input; None where it is not known, or the input is not there."""
    return shapes[port][axis] if port in shapes else None


def size_faults(shapes: Any, *rules: tuple[Any, ...]) -> list[str]:
    """A sentence for each size that is known and not as a rule says: (port, axis, size), or (port, axis, port, axis) of two
    that are the same, or (port, axis, size, how that size is computed). A size that is None is not known."""
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
    """A sentence for each (port, axis) whose size is known and too large; one of a negative axis counts from the end."""
    return [
        f"{port}[{axis}] = {size}, more than 2^31 - 1"
        for port, axis in places
        if port in shapes and -len(shapes[port]) <= axis < len(shapes[port])
        if (size := shapes[port][axis]) is not None and size > MOST
    ]

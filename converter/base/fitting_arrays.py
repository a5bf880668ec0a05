"""Proposes a line of numpy that makes arrays fit a model: a rename, a cast, a transpose, or a batch of one."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from trtsmith.converter.base.options.shapes import InputSpec

_LAYOUTS = ((0, 3, 1, 2), (0, 2, 3, 1))
"""Permutations of a batch of images: channels from last to second, and back."""

_DIVIDED = " / 255"


def fitting_expression(arrays: Mapping[str, np.ndarray], specs: Sequence[InputSpec], source: str) -> str:
    """A dict of fitting arrays, as Python writes it; "" unless exactly one way leads to every input.

    source: the expression that has the arrays by name.
    """
    names = {spec.name for spec in specs}
    free = [name for name in arrays if name not in names]
    chosen: dict[str, tuple[str, str]] = {}
    for spec in specs:
        ways = _choices(arrays, [spec.name] if spec.name in arrays else free, spec)
        if len(ways) != 1:
            return ""
        chosen[spec.name] = ways[0]
    if len({name for name, _ in chosen.values()}) < len(chosen):  # one array for two inputs
        return ""
    written = (f"{json.dumps(to)}: {source}[{json.dumps(name)}]{way}" for to, (name, way) in chosen.items())
    return "{" + ", ".join(written) + "}"


def fitting_command(
    arrays: Mapping[str, np.ndarray], specs: Sequence[InputSpec], path: Path, reading: str, flag: str
) -> str:
    """The command that writes a file of fitting arrays beside `path`, and the flag that names it; "" as above.

    reading: the expression that reads `path`, with what it imports before it.
    """
    *imports, reads = reading.split("; ")
    fitting = fitting_expression(arrays, specs, "a")
    if not fitting or not reading or "file" in (spec.name for spec in specs):  # an argument of numpy.savez
        return ""
    target = path.with_suffix(".fitting.npz")
    saved = f"np.savez({json.dumps(str(target))}, **{fitting})"
    code = "; ".join(("import numpy as np", *imports, f"a = {reads}", saved))
    return f"python -c {shlex.quote(code)}, then {flag} {shlex.quote(str(target))}{pixels(fitting)}"


def pixels(expression: str) -> str:
    """Says of a line that divides pixels when not to; "" of others."""
    return (
        f"; leave{_DIVIDED} out for a network that takes pixels from 0 to 255"
        if _DIVIDED in expression
        else ""
    )


def _choices(
    arrays: Mapping[str, np.ndarray], names: Sequence[str], spec: InputSpec
) -> list[tuple[str, str]]:
    """Which of the arrays may be meant, and what makes each fit. One of the right shape comes before others."""
    ways = [(name, way) for name in names for way in _ways(arrays[name], spec)]
    return [one for one in ways if "[None]" not in one[1] and ".transpose" not in one[1]] or ways


def _ways(array: np.ndarray, spec: InputSpec) -> Iterator[str]:
    """What makes the array fit the input, as Python writes it behind the array: "" where it fits."""
    cast = _cast(array, spec.dtype)
    if cast is None:
        return
    if _fits(array.shape, spec):
        yield cast
        return
    for batch in ("", "[None]"):
        shape = (1, *array.shape) if batch else array.shape
        if _fits(shape, spec):
            yield batch + cast
            if len(shape) != 4:
                continue
        for axes in _orders(shape, spec):
            yield f"{batch}.transpose{axes}{cast}"


def _orders(shape: Sequence[int], spec: InputSpec) -> list[tuple[int, ...]]:
    """The permutations of axes that make the shape fit. Of other than four axes those that keep the first, if any do."""
    rank = len(shape)
    if rank != len(spec.shape) or rank > 4:
        return []
    orders = _LAYOUTS if rank == 4 else itertools.permutations(range(rank))
    found = [axes for axes in orders if _fits([shape[axis] for axis in axes], spec)]
    return [axes for axes in found if axes[0] == 0] or found


def _fits(shape: Sequence[int], spec: InputSpec) -> bool:
    return len(shape) == len(spec.shape) and all(
        wanted in (None, size) for wanted, size in zip(spec.shape, shape, strict=True)
    )


def _cast(array: np.ndarray, dtype: str) -> str | None:
    """The cast to a type; None where it is not sure what is meant, or values would be lost.

    Bytes beyond 1 in the place of floats are pixels, which most networks take divided by 255.
    """
    if str(array.dtype) == dtype:
        return ""
    kinds = array.dtype.kind, np.dtype(dtype).kind
    if kinds[0] not in "iufb" or kinds[1] not in "iufb":
        return None
    bytes_of_pixels = array.dtype == np.uint8 and kinds[1] == "f" and bool((array > 1).any())
    with np.errstate(all="ignore"):
        there = array.astype(dtype)
    kept = np.isfinite(array) == np.isfinite(there) if kinds[1] == "f" else there == array
    return f'.astype("{dtype}"){_DIVIDED * bytes_of_pixels}' if np.all(kept) else None

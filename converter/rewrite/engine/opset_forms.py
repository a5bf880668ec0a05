"""Operators whose parameters moved from attributes to inputs, written as ONNX statements in the form of an opset.

Each function gives the lines that define `result`, for NodeView.statements; helper values are named after `result`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

_AXES_AS_INPUT = {"ReduceSum": 13}
"""First opset in which a reduction reads its axes from an input; 18 for those that are not here."""


def read_by(body: str, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those of the constants that the statements name, so that a body with variants brings none in vain."""
    names = set(re.findall(r"\w+", body))
    return {name: value for name, value in values.items() if name in names}


def ints(result: str, values: Sequence[int], *, scalar: bool = False) -> str:
    """An int64 constant, a vector unless `scalar`."""
    listed = ", ".join(str(int(value)) for value in values)
    size = "" if scalar else f"[{len(values)}]"
    return f"{result} = Constant <value = int64{size} {{{listed}}}> ()"


def reduce(
    op_type: str, result: str, data: str, axes: Sequence[int] | None, opset: int, *, keepdims: bool = True
) -> str:
    """ReduceSum, ReduceMax, ... over `axes`; over all of them for None. An empty sequence is not allowed."""
    if axes is not None and not axes:
        raise ValueError("no axes: write Identity")
    keep = f"keepdims = {int(keepdims)}"
    if axes is None:
        return f"{result} = {op_type} <{keep}> ({data})"
    if opset < _AXES_AS_INPUT.get(op_type, 18):
        return f"{result} = {op_type} <axes = {_listed(axes)}, {keep}> ({data})"
    return f"{ints(f'{result}_axes', axes)}\n{result} = {op_type} <{keep}> ({data}, {result}_axes)"


def squeeze(result: str, data: str, axes: Sequence[int], opset: int) -> str:
    return _movement("Squeeze", result, data, axes, opset)


def unsqueeze(result: str, data: str, axes: Sequence[int], opset: int) -> str:
    return _movement("Unsqueeze", result, data, axes, opset)


def _movement(op_type: str, result: str, data: str, axes: Sequence[int], opset: int) -> str:
    if not axes:
        return f"{result} = Identity ({data})"
    if opset < 13:
        return f"{result} = {op_type} <axes = {_listed(axes)}> ({data})"
    return f"{ints(f'{result}_axes', axes)}\n{result} = {op_type} ({data}, {result}_axes)"


def split(results: Sequence[str], data: str, sizes: Sequence[int], axis: int, opset: int) -> str:
    outputs = ", ".join(results)
    if opset < 13:
        return f"{outputs} = Split <axis = {axis}, split = {_listed(sizes)}> ({data})"
    name = f"{results[0]}_sizes"
    return f"{ints(name, sizes)}\n{outputs} = Split <axis = {axis}> ({data}, {name})"


def slice_(
    result: str,
    data: str,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    opset: int,
    steps: Sequence[int] | None = None,
) -> str:
    """ValueError: steps other than 1, which Slice has from opset 10 on."""
    if opset < 10:
        if steps is not None and any(step != 1 for step in steps):
            raise ValueError(f"steps {list(steps)} in opset {opset}")
        attributes = f"starts = {_listed(starts)}, ends = {_listed(ends)}, axes = {_listed(axes)}"
        return f"{result} = Slice <{attributes}> ({data})"
    parts = {"starts": starts, "ends": ends, "axes": axes, "steps": steps or [1] * len(axes)}
    lines = [ints(f"{result}_{name}", values) for name, values in parts.items()]
    inputs = ", ".join(f"{result}_{name}" for name in parts)
    return "\n".join((*lines, f"{result} = Slice ({data}, {inputs})"))


def clip(result: str, data: str, low: float | None, high: float | None, opset: int, dtype: str) -> str:
    """Clip to bounds that are numbers; `dtype` in ONNX text: float, float16, int32, ..."""
    bounds = {"min": low, "max": high}
    if opset < 11:
        given = ", ".join(f"{name} = {float(value)!r}" for name, value in bounds.items() if value is not None)
        return f"{result} = Clip{f' <{given}>' if given else ''} ({data})"
    lines = [
        f"{result}_{name} = Constant <value = {dtype} {{{value}}}> ()"
        for name, value in bounds.items()
        if value is not None
    ]
    inputs = ", ".join(f"{result}_{name}" if value is not None else "" for name, value in bounds.items())
    return "\n".join((*lines, f"{result} = Clip ({data}, {inputs})"))


def round_(result: str, data: str, opset: int) -> str:
    """float32 to the nearest integer, ties to even. Round itself came with opset 11; exact before it, too."""
    if opset >= 11:
        return f"{result} = Round ({data})"
    n = result
    return f"""
        {n}_half = Constant <value = float {{0.5}}> ()
        {n}_two = Constant <value = float {{2}}> ()
        {n}_floor = Floor ({data})
        {n}_above = Sub ({data}, {n}_floor)
        {n}_up = Greater ({n}_above, {n}_half)
        {n}_down = Less ({n}_above, {n}_half)
        {n}_halved = Mul ({n}_floor, {n}_half)
        {n}_even_below = Floor ({n}_halved)
        {n}_even = Mul ({n}_even_below, {n}_two)
        {n}_odd_part = Sub ({n}_floor, {n}_even)
        {n}_odd = Greater ({n}_odd_part, {n}_half)
        {n}_not_down = Not ({n}_down)
        {n}_odd_tie = And ({n}_not_down, {n}_odd)
        {n}_more = Or ({n}_up, {n}_odd_tie)
        {n}_step = Cast <to = 1> ({n}_more)
        {n} = Add ({n}_floor, {n}_step)"""


def pad(result: str, data: str, pads: Sequence[int], opset: int, value: str = "") -> str:
    """Constant padding, begins then ends; `value`: name of a scalar, zero if "". From opset 11 on for a value."""
    if opset < 11:
        if value:
            raise ValueError(f"a pad value as an input in opset {opset}")
        return f"{result} = Pad <pads = {_listed(pads)}> ({data})"
    inputs = ", ".join(name for name in (data, f"{result}_pads", value) if name)
    return f"{ints(f'{result}_pads', pads)}\n{result} = Pad ({inputs})"


def _listed(values: Sequence[int]) -> str:
    return "[" + ", ".join(str(int(value)) for value in values) + "]"

"""Computes operators that only move values, on arrays of any element type; results are no larger than the inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Move = Callable[[Mapping[str, Any], Sequence[np.ndarray | None], Sequence[tuple[int, ...]]], list[np.ndarray]]
"""(attributes, inputs with None for those that are left out, shapes of the outputs): the outputs."""


def _reshaped(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    return [_data(inputs).reshape(shapes[0])]


def _transposed(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    return [_data(inputs).transpose(given.get("perm"))]


def _joined(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    return [np.concatenate([part for part in inputs if part is not None], given["axis"])]


def _sliced(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    data = _data(inputs)
    starts, ends, axes, steps = (
        _operand(given, inputs, place, name)
        for place, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    assert starts is not None and ends is not None  # the schema wants both
    index: list[slice] = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[i] if axes is not None else i
        step = steps[i] if steps is not None else 1
        size = data.shape[axis]
        first, last = (value + size if value < 0 else value for value in (start, end))
        if step > 0:
            index[axis] = slice(min(max(first, 0), size), min(max(last, 0), size), step)
        else:
            last = min(max(last, -1), size - 1)
            index[axis] = slice(min(max(first, 0), size - 1), None if last < 0 else last, step)
    return [data[tuple(index)]]


def _split(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    axis = given.get("axis", 0)
    ends = np.cumsum([shape[axis] for shape in shapes])[:-1]
    return list(np.split(_data(inputs), ends, axis))


def _taken(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], shapes: Sequence[tuple[int, ...]]
) -> list[np.ndarray]:
    assert inputs[1] is not None  # the schema wants it
    return [_data(inputs).take(inputs[1], given.get("axis", 0))]


MOVES: Mapping[str, Move] = {
    **dict.fromkeys(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"), _reshaped),
    "Concat": _joined,
    "Gather": _taken,
    "Slice": _sliced,
    "Split": _split,
    "Transpose": _transposed,
}


def _data(inputs: Sequence[np.ndarray | None]) -> np.ndarray:
    assert inputs[0] is not None  # the schema wants it
    return inputs[0]


def _operand(
    given: Mapping[str, Any], inputs: Sequence[np.ndarray | None], place: int, name: str
) -> list[int] | None:
    """An input, or the attribute that it was in earlier opsets."""
    if name in given:
        return [int(value) for value in given[name]]
    array = inputs[place] if place < len(inputs) else None
    return None if array is None else [int(value) for value in array]

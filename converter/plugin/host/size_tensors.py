"""Reads the shapes of data-dependent outputs from the size tensors of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import Dim, Shape, TensorDesc

Sizes = Sequence[int | None]
"""For each dimension of an output the index of the output that holds it; None where it is known before a run."""


def described(dtypes: Sequence[str], rules: Sequence[Sequence[Dim]]) -> tuple[TensorDesc, ...]:
    """Outputs with the sizes that their rules come to; a size that depends on values has its upper bound."""
    shapes = (tuple(dim.evaluated or 0 for dim in rule) for rule in rules)
    return tuple(map(TensorDesc, dtypes, shapes))


def as_enqueued(outputs: Sequence[TensorDesc], rules: Sequence[Sequence[Dim]]) -> tuple[TensorDesc, ...]:
    """Outputs as TensorRT describes them to enqueue: a size tensor whose upper bound is 0 is one element, [1].

    Every other size tensor is a scalar. Seen in engines of TensorRT-RTX 1.6.1. rules: the dimensions of every output.
    """
    empty = {
        dim.size_output for rule in rules for dim in rule if dim.size_output is not None and not dim.evaluated
    }
    return tuple(replace(desc, shape=(1,)) if i in empty else desc for i, desc in enumerate(outputs))


def written_shape(most: Shape, sizes: Sizes, outputs: Sequence[np.ndarray], where: str) -> Shape:
    """The shape that was written. most: the same with upper bounds; outputs: of the run, its size tensors at least.

    Raises PluginError for a size that is negative or above its bound.
    """
    shape = []
    for bound, index in zip(most, sizes, strict=True):
        size = bound if index is None else int(outputs[index].reshape(-1)[0])
        if not 0 <= size <= bound:
            raise PluginError(
                abi.Status.BROKEN,
                f"the kernel wrote the size {size} to output {index}, and its shape rule bounds it by {bound}",
                where,
            )
        shape.append(size)
    return tuple(shape)


def cut_to_sizes(array: np.ndarray, sizes: Sizes, outputs: Sequence[np.ndarray], where: str) -> np.ndarray:
    """The part of an output that its size tensors say was written.

    The memory holds the written shape packed, so it is read from the front and not sliced.
    """
    shape = written_shape(array.shape, sizes, outputs, where)
    return array if shape == array.shape else array.reshape(-1)[: math.prod(shape)].reshape(shape)

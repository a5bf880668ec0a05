"""Reads the shapes that a run gave to outputs of data-dependent shape from what it wrote to its size tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trtsmith.converter.plugin.host import abi
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import Shape

Sizes = Sequence[int | None]
"""For each dimension of an output the index of the output that holds it; None where it is known before a run."""


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

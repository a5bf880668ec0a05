"""Gates: products of an image with one number for each of its channels, as squeeze-and-excitation has them.

TensorRT-RTX 1.6.1 makes one kernel of such a gate in 16 bits and the depthwise convolution before it. For dynamic shapes it
has none, and fails when it runs (seen on an H200). In float32 between Casts it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.graph.tensor_types import Dim

_SPATIAL = 2
"""The first axis behind batch and channels."""


def is_gate(factors: Sequence[tuple[Dim, ...] | None]) -> bool:
    """Whether factors of these shapes are an image that is not of one pixel, of a dynamic shape, and a gate for it."""
    images = [dims for dims in factors if dims is not None and len(dims) > _SPATIAL]
    wide = [dims for dims in images if any(size != 1 for size in dims[_SPATIAL:])]
    return (
        len(images) == len(factors) == 2 and len(wide) == 1 and not all(isinstance(n, int) for n in wide[0])
    )

"""NATTEN's attention as its users write it. The oracle tests every pair of places for neighbourhood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

ATTENTION = "NeighbourhoodAttention"


def near(
    query: int, key: int, length: int, kernel: int, stride: int = 1, dilation: int = 1, causal: int = 0
) -> bool:
    if query % dilation != key % dilation:
        return False
    size = len(range(query % dilation, length, dilation))
    q, k = query // dilation, key // dilation
    if causal:
        leader = min(q // stride * stride + stride - 1, size - 1)
        return k <= q and leader - k < kernel
    middle = min(q // stride * stride + stride // 2, size - 1)
    middle = max(middle, kernel // 2)
    middle = min(middle, size - 1 - (kernel - 1 - kernel // 2))
    return -(kernel // 2) <= k - middle <= kernel - 1 - kernel // 2


def attended(scale: float, *axes: tuple[int, ...]) -> Callable[[Arrays], np.ndarray]:
    """axes: of each the kernel, stride, dilation, and whether it is causal."""

    def oracle(arrays: Arrays) -> np.ndarray:
        q, k, v = (array.astype(np.float64) for array in arrays.values())
        space = q.shape[1:-2]
        output = np.zeros(q.shape)
        for place in np.ndindex(*space):
            mine = [
                other
                for other in np.ndindex(*space)
                if all(map(near, place, other, space, *zip(*axes, strict=True)))
            ]
            for b, h in np.ndindex(len(q), q.shape[-2]):
                scores = np.array([q[(b, *place, h)] @ k[(b, *other, h)] for other in mine]) * scale
                shares = np.exp(scores - scores.max())
                output[(b, *place, h)] = (
                    shares @ np.stack([v[(b, *other, h)] for other in mine]) / shares.sum()
                )
        return output

    return oracle


def inputs(*space: int) -> Callable[[], dict[str, np.ndarray | None]]:
    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(43)
        return {name: rng.normal(size=(2, *space, 2, 4)).astype(np.float32) for name in "qkv"}

    return make


def example(
    axes: int,
    space: tuple[int, ...],
    attributes: dict[str, Any],
    oracle: Callable[[Arrays], np.ndarray],
    note: str = "",
) -> Example:
    return Example(ATTENTION, f"na{axes}d", "natten", attributes, inputs(*space), oracle, note=note)


OWN = {
    "kernel_size": [1, 3, 2],
    "stride": [1, 2, 1],
    "dilation": [1, 1, 2],
    "is_causal": [0, 0, 1],
    "scale": 0.7,
}
PLAIN = (3, 1, 1, 0)

EXAMPLES = (
    example(1, (9,), {"kernel_size": 3}, attended(0.5, PLAIN)),
    example(
        1,
        (11,),
        {"kernel_size": [3], "stride": 2, "dilation": 2, "is_causal": 1},
        attended(0.5, (3, 2, 2, 1)),
        "of all",
    ),
    example(2, (5, 6), {"kernel_size": 3, "scale": 0.25}, attended(0.25, PLAIN, PLAIN)),
    example(
        2,
        (5, 9),
        {"kernel_size": [4, 3], "stride": [2, 3], "dilation": [1, 2]},
        attended(0.5, (4, 2, 1, 0), (3, 3, 2, 0)),
        "of each axis",
    ),
    example(
        3,
        (3, 4, 5),
        {"kernel_size": [2, 3, 3], "is_causal": [1, 0, 0]},
        attended(0.5, (2, 1, 1, 1), PLAIN, PLAIN),
    ),
    Example(
        ATTENTION,
        ATTENTION,
        "trtsmith",
        OWN,
        inputs(2, 5, 6),
        attended(0.7, (1, 1, 1, 0), (3, 2, 1, 0), (2, 1, 2, 1)),
    ),
)

SHAPES = dict.fromkeys("qkv", (2, 1, 8, 9, 3, 4))
FIELDS = {
    "kernel_size": (1, 3, 3),
    "stride": (1, 1, 2),
    "dilation": (1, 2, 1),
    "is_causal": (0, 0, 0),
    "scale": 0.0,
}

INCONSISTENT = (
    Inconsistent(ATTENTION, SHAPES, {"k": (2, 1, 8, 9, 2, 4)}, "k[4] = 2, not 3 = q[4]", FIELDS),
    Inconsistent(ATTENTION, SHAPES, {"v": (2, 1, 8, 9, 3, 5)}, "v[5] = 5, not 4 = q[5]", FIELDS),
    Inconsistent(
        ATTENTION,
        SHAPES,
        dict.fromkeys("qkv", (2, 1, 5, 9, 3, 4)),
        "q[2] = 5, less than 3 * 2 = kernel_size[1] * dilation[1]",
        FIELDS,
    ),
    Inconsistent(
        ATTENTION,
        SHAPES,
        {},
        "stride[2] = 4, more than 3 = kernel_size[2]",
        FIELDS,
        {"stride": (1, 1, 4)},
    ),
)


HUGE = (
    "a block reads rows of its own places, and their addresses are 64-bit: RoI align's case stands for those"
)

"""Rewrites both halves of neighbourhood attention (Hassani et al., arXiv 2204.07143 and 2209.15001) as products.

Source: SHI-Labs/NATTEN until 0.17, csrc. Names are those of its functions, for no exporter was found: natten1dqkrpb,
natten2dqkrpb, natten3dqkrpb (q, k [B, heads, *space, D], bias [heads, 2K - 1, ...]), which give the scores of K, K^2 or K^3
neighbours without a factor, and natten1dav, natten2dav, natten3dav (scores, v). na1d, na2d and na3d, which do both, are a
plugin of ours.

Along an axis, dilation d makes d groups of places that know each other; a place is the middle of its K neighbours, or as
near to it as the border allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    fixed_sizes,
    kinds,
    narrow,
    rewriter,
    settings,
    wide,
)


def _along(length: int, kernel: int, dilation: int) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours' indices [L, K] of each place along an axis, and their distances in steps of the dilation."""
    group, place = np.arange(length) % dilation, np.arange(length) // dilation
    size = -(-(length - group) // dilation)
    found = np.clip(place - kernel // 2, 0, size - kernel)[:, None] + np.arange(kernel)
    return group[:, None] + dilation * found, found - place[:, None]


def _space(w: Writer, lengths: Sequence[int], given: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours over all axes: indices [places, neighbours], and distances [axes, places, neighbours]."""
    axes = len(lengths)
    kernel, dilation = (np.broadcast_to(given[name], axes) for name in ("kernel_size", "dilation"))
    wrong = (kernel < 1) | (dilation < 1) | (kernel * dilation > lengths)
    if wrong.any():
        reason = f"a space of {list(lengths)}, kernel_size {kernel.tolist()} and dilation {dilation.tolist()}"
        wanted = "a space of kernel_size * dilation or more"
        raise RefusedError(reason, wanted, "correct the node's attributes, or the input's size")
    count = math.prod(lengths) * math.prod(kernel.tolist())
    w.expect(f"{count:,} neighbours", nbytes=8 * count)
    parts = [_along(*values) for values in zip(lengths, kernel.tolist(), dilation.tolist(), strict=True)]

    def spread(which: int, axis: int) -> np.ndarray:
        """Broadcasts [L, K] of one axis over the space and its neighbours."""
        shape = np.ones(2 * axes, np.int64)
        shape[axis], shape[axes + axis] = parts[axis][which].shape
        return np.broadcast_to(parts[axis][which].reshape(shape), (*lengths, *kernel)).reshape(
            np.prod(lengths), -1
        )

    number = reduce(lambda before, axis: before * lengths[axis] + spread(0, axis), range(axes), np.int64(0))
    return number, np.stack([spread(1, axis) for axis in range(axes)])


def _settings(node: NodeView, axes: int) -> dict[str, Any]:
    """kernel_size and dilation, each an int or one int per axis."""
    names: dict[str, Any] = {"kernel_size": int, "dilation": 1}
    several = {name for name in names if isinstance(node.attributes.get(name), list)}
    given = settings(node, **{name: list if name in several else default for name, default in names.items()})
    for name in several:
        if len(given[name]) != axes:
            reason = f"{name} has {len(given[name])} numbers"
            raise RefusedError(reason, f"one, or {axes}", f"correct {name!r} where the model is made")
    return given


def _gathered(w: Writer, index: int, lengths: Sequence[int], number: np.ndarray) -> Value:
    """Gathers all neighbours from [B, heads, *space, D]: [B, heads, places, neighbours, D]."""
    flat = w.Reshape(wide(w, index), shape=[0, 0, int(np.prod(lengths)), -1])
    return w.Gather(flat, number, axis=2)


def _scores(w: Writer, dtype: str) -> Value:
    axes = int(w.node.op_type[6])
    given = _settings(w.node, axes)
    lengths = fixed_sizes(w.node, 0, axes + 3, *range(2, axes + 2))
    number, away = _space(w, lengths, given)
    query = w.Reshape(wide(w, 0), shape=[0, 0, int(np.prod(lengths)), 1, -1])
    keys = w.Transpose(_gathered(w, 1, lengths, number), perm=[0, 1, 2, 4, 3])
    scores = w.Squeeze(w.MatMul(query, keys), axes=[3])
    if w.node.input(2):
        heads, *span = fixed_sizes(w.node, 2, axes + 1, *range(axes + 1))
        kernel = np.broadcast_to(given["kernel_size"], axes)
        if span != [2 * k - 1 for k in kernel]:
            reason = f"its bias is of {span}, and the kernel of {kernel.tolist()}"
            raise RefusedError(reason, "2 K - 1 numbers along each axis", "correct the bias")
        place = reduce(
            lambda before, axis: before * span[axis] + away[axis] + kernel[axis] - 1, range(axes), 0
        )
        scores = w.Add(scores, w.Gather(w.Reshape(wide(w, 2), shape=[heads, -1]), place, axis=1))
    result = w.Reshape(scores, [0, 0, *lengths, number.shape[1]])
    return narrow(w, result, dtype)


def _weighted(w: Writer, dtype: str) -> Value:
    axes = int(w.node.op_type[6])
    given = _settings(w.node, axes)
    lengths = fixed_sizes(w.node, 1, axes + 3, *range(2, axes + 2))
    values = _gathered(w, 1, lengths, _space(w, lengths, given)[0])
    scores = w.Reshape(wide(w, 0), shape=[0, 0, int(np.prod(lengths)), 1, -1])
    return narrow(w, w.Reshape(w.MatMul(scores, values), w.shape(w.x[1])), dtype)


_NEIGHBOURS = {
    **{
        f"natten{n}dqkrpb": PluginForm(_scores, "products with neighbours", 2, 3, floats=(0, 1))
        for n in (1, 2, 3)
    },
    **{
        f"natten{n}dav": PluginForm(_weighted, "products with neighbours", 2, floats=(0, 1))
        for n in (1, 2, 3)
    },
}

STOCK_NEIGHBOURHOODS = NodeRule(
    "stock-neighbourhoods",
    "NATTEN's scores of neighbours, and their weighted values, become Gather and products",
    kinds(*_NEIGHBOURS, domains=("natten",)),
    rewriter(_NEIGHBOURS),
    opset=13,
)

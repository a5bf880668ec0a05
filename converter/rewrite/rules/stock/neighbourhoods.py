"""Rewrites neighbourhood attention (Hassani et al., arXiv 2204.07143 and 2209.15001) as gathered neighbours and products.

Source: SHI-Labs/NATTEN, csrc and natten's reference/mask.hpp. Names are those of its functions, for no exporter was found:
- na1d, na2d, na3d (q, k, v [B, *space, heads, D]), with the attributes of `forward`;
- until 0.17, natten1dqkrpb, natten2dqkrpb, natten3dqkrpb (q, k [B, heads, *space, D], bias [heads, 2K - 1, ...]), which give
  the scores of K, K^2 or K^3 neighbours without a factor, and natten1dav, natten2dav, natten3dav (scores, v).

Along an axis, dilation d makes d groups of places that know each other; a place is the middle of its K neighbours, or as
near to it as the border allows; with a stride, places share the neighbours of a leader; a causal axis ends with the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    Plugin,
    fixed_sizes,
    kinds,
    narrow,
    rewriter,
    settings,
    wide,
)

_MOST = 1 << 26
"""Places times neighbours, whose numbers become a constant of the engine: half a gigabyte of them."""


def _along(length: int, kernel: int, dilation: int, stride: int, causal: int) -> tuple[np.ndarray, ...]:
    """For each place: its neighbours [L, K], whether they are there, and how far their places in the group are away."""
    group, place = np.arange(length) % dilation, np.arange(length) // dilation
    size = -(-(length - group) // dilation)
    leader = np.minimum(place // stride * stride + (stride - 1 if causal else stride // 2), size - 1)
    first = np.maximum(leader - kernel + 1, 0) if causal else np.clip(leader - kernel // 2, 0, size - kernel)
    found = first[:, None] + np.arange(kernel)
    away = found - place[:, None]
    there = away <= 0 if causal else np.ones_like(away, np.bool_)
    return np.minimum(group[:, None] + dilation * found, length - 1), there, away


def _space(node: NodeView, lengths: Sequence[int], given: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """The same for all axes: numbers and marks [places, neighbours], and [axes, places, neighbours] of distances."""
    axes = len(lengths)
    ranges = [
        np.broadcast_to(given[name], axes).tolist()
        for name in ("kernel_size", "dilation", "stride", "is_causal")
    ]
    kernel, dilation, stride, _ = (np.array(values) for values in ranges)
    wrong = (kernel < 1) | (dilation < 1) | (stride < 1) | (stride > kernel) | (kernel * dilation > lengths)
    if wrong.any() or np.prod(lengths) * kernel.prod() > _MOST:
        reason = f"a space of {list(lengths)}, kernel_size {ranges[0]}, dilation {ranges[1]} and stride {ranges[2]}"
        wanted = "a space of kernel_size * dilation or more, strides up to kernel_size, and 67,108,864 neighbours or fewer"
        raise RefusedError(reason, wanted, "correct the node's attributes, or the input's size")
    parts = [_along(length, *values) for length, *values in zip(lengths, *ranges, strict=True)]

    def spread(which: int, axis: int) -> np.ndarray:
        """[L, K] of an axis as [L, 1, 1, K], say, for the first of two."""
        shape = np.ones(2 * axes, np.int64)
        shape[axis], shape[axes + axis] = parts[axis][which].shape
        return np.broadcast_to(parts[axis][which].reshape(shape), (*lengths, *kernel)).reshape(
            np.prod(lengths), -1
        )

    number = reduce(lambda before, axis: before * lengths[axis] + spread(0, axis), range(axes), np.int64(0))
    there = reduce(np.logical_and, (spread(1, axis) for axis in range(axes)))
    return number, there, np.stack([spread(2, axis) for axis in range(axes)])


def _settings(node: NodeView, axes: int, **more: Any) -> dict[str, Any]:
    """Each of kernel_size, dilation, stride and is_causal as an int or as one for each axis."""
    names = {"kernel_size": int, "dilation": 1, **({"stride": 1, "is_causal": 0} if more else {})}
    several = {name for name in names if isinstance(node.attributes.get(name), list)}
    kinds_of = {name: list if name in several else default for name, default in names.items()}
    given = {"stride": 1, "is_causal": 0, **settings(node, **kinds_of, **more)}
    for name in several:
        if len(given[name]) != axes:
            reason = f"{name} has {len(given[name])} numbers"
            raise RefusedError(reason, f"one, or {axes}", f"correct {name!r} where the model is made")
    return given


def _attention(w: Writer, dtype: str) -> Value:
    axes = int(w.node.op_type[2])
    given = _settings(w.node, axes, scale=0.0)
    *lengths, width = fixed_sizes(w.node, 0, axes + 3, *range(1, axes + 1), axes + 2)
    number, there, _ = _space(w.node, lengths, given)

    def by_head(index: int) -> Value:
        """[B, *space, heads, D] as [B, heads, places, D]."""
        shape = w.Concat(
            [0, int(np.prod(lengths))], w.slice(w.shape(w.x[index]), [-2], [axes + 3], [0]), axis=0
        )
        return w.Transpose(w.Reshape(wide(w, index), shape), perm=[0, 2, 1, 3])

    scale = float(given["scale"]) if w.node.given("scale") else width**-0.5
    query = w.Unsqueeze(w.Mul(by_head(0), scale), axes=[3])
    keys, values = (w.Gather(by_head(index), number, axis=2) for index in (1, 2))
    scores = w.MatMul(query, w.Transpose(keys, perm=[0, 1, 2, 4, 3]))
    if not there.all():
        scores = w.Add(scores, np.where(there, 0, -np.inf).astype(np.float32)[:, None])
    result = w.Squeeze(w.MatMul(w.Softmax(scores, axis=-1), values), axes=[3])
    return narrow(w, w.Reshape(w.Transpose(result, perm=[0, 2, 1, 3]), w.shape(w.x[2])), dtype)


def _gathered(w: Writer, index: int, lengths: Sequence[int], number: np.ndarray) -> Value:
    """[B, heads, *space, D] of all neighbours: [B, heads, places, neighbours, D]."""
    flat = w.Reshape(wide(w, index), shape=[0, 0, int(np.prod(lengths)), -1])
    return w.Gather(flat, number, axis=2)


def _scores(w: Writer, dtype: str) -> Value:
    axes = int(w.node.op_type[6])
    given = _settings(w.node, axes)
    lengths = fixed_sizes(w.node, 0, axes + 3, *range(2, axes + 2))
    number, _, away = _space(w.node, lengths, given)
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
    values = _gathered(w, 1, lengths, _space(w.node, lengths, given)[0])
    scores = w.Reshape(wide(w, 0), shape=[0, 0, int(np.prod(lengths)), 1, -1])
    return narrow(w, w.Reshape(w.MatMul(scores, values), w.shape(w.x[1])), dtype)


_NEIGHBOURS = {
    **{
        f"na{n}d": Plugin(_attention, "gathered neighbours, products and Softmax", 3, floats=(0, 1, 2))
        for n in (1, 2, 3)
    },
    **{
        f"natten{n}dqkrpb": Plugin(_scores, "products with neighbours", 2, 3, floats=(0, 1))
        for n in (1, 2, 3)
    },
    **{f"natten{n}dav": Plugin(_weighted, "products with neighbours", 2, floats=(0, 1)) for n in (1, 2, 3)},
}

STOCK_NEIGHBOURHOODS = NodeRule(
    "stock-neighbourhoods",
    "NATTEN's attention to neighbours becomes Gather, products and a Softmax",
    kinds(*_NEIGHBOURS, domains=("natten",)),
    rewriter(_NEIGHBOURS),
    opset=13,
)

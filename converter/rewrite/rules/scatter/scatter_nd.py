"""Rewrites ScatterND with a reduction by one without: TensorRT's scatter only overwrites, in no order.

What reduces whole rows, with one index in a tuple, is a plugin's before (scatter_rows_plugin.py).

As for ScatterElements, updates with the same index tuple are combined first, found by comparing the M tuples in pairs;
then each with the slice that it goes to. The pairs cost M times the size of the updates, in parts.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.scatter.scatter_parts import scattered_tuples
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import (
    PAIRS,
    PARTS,
    REDUCTIONS,
    ScatterReduction,
    parts,
)


@node_rule("scatter-nd", "ScatterND")
def scatter_nd_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites ScatterND with a reduction as one without."""
    name = node.attributes.get("reduction", "none")
    if name == "none":
        return None
    rank, indices = node.known_rank(0), node.known_shape(1)
    depth = indices[-1] if indices else 0
    if depth is None:
        return node.unknown(1, "the last size")
    if name not in REDUCTIONS or not 0 < depth <= rank:
        return Refusal(
            f"reduction {name!r} on a tensor of rank {rank}, indices of shape {list(indices)}",
            f"one of {', '.join(REDUCTIONS)}, and indices whose last size is at most the rank",
            "correct the node where the model is exported",
        )
    reduction = REDUCTIONS[name]
    unique = _all_differ(node.constant(1), node.shape(0), depth)
    length, width = _sizes(indices, node.shape(2))
    cuts = [] if unique else parts(length, width)
    if cuts is None:
        return Refusal(
            f"{length:,} updates of {width:,} elements each are too many to be compared in pairs",
            f"updates that fit into {PARTS} parts of {PAIRS:,} pairs of elements",
            "scatter in several nodes, or make the indices constant and all different",
        )
    w = Writer(node)
    shape = w.Shape(w.x[0])
    sizes, inner = w.slice(shape, [0], [depth], [0]), w.slice(shape, [depth], [rank], [0])
    tuples = w.Reshape(w.x[1], shape=[-1, depth])
    places = w.Where(w.Less(tuples, 0), w.Add(tuples, sizes), tuples)
    updates = w.Reshape(w.x[2], w.Concat([-1], inner, axis=0))
    data, pairs = w.x[0], None if unique else (depth, rank - depth)
    for start, end in cuts:
        at, new = (w.slice(value, [start], [end], [0]) for value in (places, updates))
        data = _part(w, reduction, data, at, new, pairs)
    if not cuts:
        data = _part(w, reduction, data, places, updates, pairs)
    how = "constant indices that differ" if unique else "updates of one slice combined first"
    return Replacement(w.finish(data), f"ScatterND, {how}")


def _part(
    w: Writer,
    reduction: ScatterReduction,
    data: Value,
    indices: Value,
    updates: Value,
    pairs: tuple[int, int] | None,
) -> Value:
    """Scatters the updates of one part. pairs: tuple length and update rank if tuples must be compared."""
    combined = _combined(w, reduction, indices, updates, *pairs) if pairs else updates
    new = w.write(reduction.combine, w.GatherND(data, indices), combined)
    return scattered_tuples(w, data, indices, new, 0)


def _combined(
    w: Writer, reduction: ScatterReduction, indices: Value, updates: Value, depth: int, inner_rank: int
) -> Value:
    """Reduces the updates whose index tuples are equal."""
    equal = w.Equal(w.Unsqueeze(indices, axes=[1]), w.Unsqueeze(indices, axes=[0]))
    parts_equal = w.reduce("ReduceSum", w.Cast(equal, to="int32"), [2], keepdims=False)
    alike = w.Equal(parts_equal, w.number(depth, "int32"))
    same = w.unsqueeze(alike, list(range(2, 2 + inner_rank)))
    neutral = reduction.neutral(w.node.known_dtype(0))
    counted = w.Where(same, w.Unsqueeze(updates, axes=[0]), neutral)
    return w.reduce(reduction.over, counted, [1], keepdims=False)


def _sizes(
    indices: tuple[int | None, ...] | None, updates: tuple[int | None, ...] | None
) -> tuple[int | None, int]:
    """The number of updates, and the elements of each with 1 for unknown sizes."""
    if not indices or None in indices[:-1]:
        return None, 1
    inner = (updates or ())[len(indices) - 1 :]
    return math.prod(n or 0 for n in indices[:-1]), math.prod(n or 1 for n in inner)


def _all_differ(indices: np.ndarray | None, shape: tuple[int | None, ...] | None, depth: int) -> bool:
    if indices is None or shape is None or None in shape[:depth] or 0 in shape[:depth]:
        return False
    tuples = indices.reshape(-1, depth) % np.array(shape[:depth], np.int64)
    return len(np.unique(tuples, axis=0)) == len(tuples)

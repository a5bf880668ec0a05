"""Rewrites ScatterElements with a reduction, or with more indices than elements, in operators that TensorRT has.

TensorRT's scatter overwrites, and orders nothing. What reduces whole rows is a plugin's before (scatter_rows_plugin.py).

Each update is first combined with all updates that go to the same element, by comparing their indices in pairs, then
with the element itself. Updates of one element then have the same value, so that it matters not which is written
last. The pairs cost the size of the indices times their length along the axis, in parts.

TensorRT-RTX 1.7.1 also refuses indices that are longer than the data, along the axis too; where sizes are decided when the
engine runs, its builder refuses what the profile has, and says so of a whole region. ScatterND with the coordinates of
every element does the same, and has no such limit. It is what is written for a reduction whose sizes are unknown: graph
networks add the messages of many edges to few nodes.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.scatter.scatter_parts import Scatter, coordinates, scattered
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import PAIRS, PARTS, REDUCTIONS, parts


@node_rule("scatter-elements", "ScatterElements")
def scatter_elements_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites ScatterElements with a reduction, or with more indices than elements."""
    return rewrite_scatter(node, fits=_fits(node.shape(1), node.shape(0)))


@node_rule("bool-scatter", "ScatterElements", "ScatterND")
def bool_scatter_rule(node: NodeView) -> Replacement | None:
    """Computes scatters that reduce booleans in int32, where a sum is an Or and a product an And."""
    reduction = node.attributes.get("reduction", "none")
    if node.dtype(0) != "bool" or reduction == "none":
        return None
    w = Writer(node)
    data, updates = (w.Cast(w.x[index], to="int32") for index in (0, 2))
    counted = w.write(node.op_type, data, w.x[1], updates, **node.own("axis", "reduction"))
    return Replacement(w.finish(w.Cast(counted, to="bool")), f"{node.op_type} of booleans in int32")


def rewrite_scatter(node: NodeView, *, fits: bool | None) -> Replacement | Refusal | None:
    """Rewrites the node in operators that TensorRT has; None if TensorRT takes it as it is.

    fits: whether no size of the indices is more than the data's; None where that is not known.
    """
    name = node.attributes.get("reduction", "none")
    rank = node.rank(0)
    if name == "none" and (fits is not False or not rank):
        return None
    if node.rank(1) not in (None, rank) or node.rank(2) not in (None, rank):
        return Refusal(
            f"data, indices and updates have ranks {rank}, {node.rank(1)} and {node.rank(2)}",
            "tensors of one rank, as ONNX defines ScatterElements",
            "correct the node where the model is exported",
        )
    rank, dtype = node.known_rank(0), node.known_dtype(0)
    if name not in ("none", *REDUCTIONS) or not rank:
        return Refusal(
            f"reduction {name!r} on a tensor of rank {rank}",
            f"one of {', '.join(REDUCTIONS)}, on a tensor of rank 1 or more",
            "correct the node where the model is exported",
        )
    axis = int(node.attributes.get("axis", 0)) % rank
    unique = name == "none" or _all_differ(node.constant(1), node.shape(0), axis)
    cuts = [] if unique else parts(*_sizes(node.shape(1), axis))
    if cuts is None:
        return Refusal(
            f"the indices of shape {list(node.shape(1) or ())} are too many to be compared in pairs along axis {axis}",
            f"indices that fit into {PARTS} parts of {PAIRS:,} pairs",
            "scatter in several nodes, or along a shorter axis",
        )
    reduction = REDUCTIONS.get(name)
    w = Writer(node)
    given = w.Cast(w.x[1], to="int64")
    length = w.Gather(w.Shape(w.x[0]), axis, axis=0)
    # From 0 on: -1 and the last one are the same element.
    indices = w.Where(w.Less(given, 0), w.Add(given, length), given)
    at = indices if fits else coordinates(w, indices, axis, rank)
    result = scattered(w, Scatter(axis, bool(fits), unique, reduction, dtype), cuts, indices, at)
    how = "" if unique else ", updates of one element combined first"
    what = ("ScatterElements" if fits else "ScatterND") + how
    return Replacement(w.finish(result), what)


def _fits(indices: tuple[int | None, ...] | None, data: tuple[int | None, ...] | None) -> bool | None:
    """Whether no size of the indices exceeds the data's, as TensorRT requires; None if some are unknown."""
    if indices is None or data is None or len(indices) != len(data):
        return None
    sizes = list(zip(indices, data, strict=True))
    if any(i is not None and d is not None and i > d for i, d in sizes):
        return False
    return None if any(i is None or d is None for i, d in sizes) else True


def _sizes(shape: tuple[int | None, ...] | None, axis: int) -> tuple[int | None, int]:
    """The length along the axis, and the product of the other sizes with 1 for unknown ones."""
    if shape is None or shape[axis] is None:
        return None, 1
    return shape[axis], math.prod(size or 1 for at, size in enumerate(shape) if at != axis)


def _all_differ(indices: np.ndarray | None, shape: tuple[int | None, ...] | None, axis: int) -> bool:
    length = shape[axis] if shape else None
    if indices is None or length is None:
        return False
    ordered = np.sort(indices % length if length else indices, axis=axis)
    return bool(np.all(np.diff(ordered, axis=axis) > 0))

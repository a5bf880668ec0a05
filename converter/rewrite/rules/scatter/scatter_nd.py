"""ScatterND with a reduction, by one without: TensorRT's scatter overwrites, and orders nothing.

As for ScatterElements, updates with the same index tuple are combined first, found by comparing the M tuples in pairs;
then each with the slice that it goes to. The pairs cost M times the size of the updates, in parts.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by, reduce, slice_, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import (
    PAIRS,
    PARTS,
    REDUCTIONS,
    Part,
    Reduction,
    parts,
)


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    name = node.attributes.get("reduction", "none")
    if name == "none":
        return None
    rank, dtype, indices = node.rank(0), node.dtype(0), node.shape(1)
    depth = indices[-1] if indices else None
    if name not in REDUCTIONS or not rank or dtype is None or not depth:
        return Refusal(
            f"reduction {name!r} on a tensor of rank {rank} and type {dtype}, indices of shape {indices}",
            f"one of {', '.join(REDUCTIONS)}, known rank and type, and indices whose last size is known",
            "run onnx.shape_inference on the model, or export it with shapes",
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
    body = f"""
        shape = Shape (x0)
        {slice_("sizes", "shape", [0], [depth], [0], node.opset)}
        {slice_("inner", "shape", [depth], [rank], [0], node.opset)}
        tuples = Reshape (x1, tuples_shape)
        below = Less (tuples, zero)
        from_end = Add (tuples, sizes)
        indices = Where (below, from_end, tuples)
        updates_shape = Concat <axis = 0> (rest, inner)
        updates = Reshape (x2, updates_shape)
        {_in_parts(reduction, cuts, rank - depth, unique, node.opset)}
    """
    constants = {
        "tuples_shape": np.array([-1, depth]),
        "rest": np.array([-1]),
        "zero": np.array(0),
        "depth": np.array(depth, np.int32),
        "neutral": reduction.neutral(dtype),
    }
    how = "constant indices that differ" if unique else "updates of one slice combined first"
    return Replacement(statements(node, body, **read_by(body, constants)), f"ScatterND, {how}")


def _in_parts(reduction: Reduction, cuts: list[Part], inner_rank: int, unique: bool, opset: int) -> str:
    lines, data = [], "x0"
    for number, (start, end) in enumerate(cuts):
        at = f"p{number}"
        lines.append(slice_(f"{at}_indices", "indices", [start], [end], [0], opset))
        lines.append(slice_(f"{at}_updates", "updates", [start], [end], [0], opset))
        result = "y0" if number == len(cuts) - 1 else f"{at}_data"
        lines.append(_part(reduction, at, data, result, inner_rank, unique, opset))
        data = result
    if not cuts:
        lines = ["p_indices = Identity (indices)", "p_updates = Identity (updates)"]
        lines.append(_part(reduction, "p", data, "y0", inner_rank, unique, opset))
    return "\n".join(lines)


def _part(
    reduction: Reduction, at: str, data: str, result: str, inner_rank: int, unique: bool, opset: int
) -> str:
    """Two tuples are the same if all of their parts are."""
    combined = f"""
        {unsqueeze(f"{at}_targets", f"{at}_indices", [1], opset)}
        {unsqueeze(f"{at}_sources", f"{at}_indices", [0], opset)}
        {unsqueeze(f"{at}_values", f"{at}_updates", [0], opset)}
        {at}_equal = Equal ({at}_targets, {at}_sources)
        {at}_ones = Cast <to = 6> ({at}_equal)
        {reduce("ReduceSum", f"{at}_parts", f"{at}_ones", [2], opset, keepdims=False)}
        {at}_alike = Equal ({at}_parts, depth)
        {unsqueeze(f"{at}_same", f"{at}_alike", list(range(2, 2 + inner_rank)), opset)}
        {at}_counted = Where ({at}_same, {at}_values, neutral)
        {reduce(reduction.over, f"{at}_combined", f"{at}_counted", [1], opset, keepdims=False)}
    """
    return f"""
        {f"{at}_combined = Identity ({at}_updates)" if unique else combined}
        {at}_old = GatherND ({data}, {at}_indices)
        {at}_new = {reduction.combine} ({at}_old, {at}_combined)
        {result} = ScatterND ({data}, {at}_indices, {at}_new)
    """


def _sizes(
    indices: tuple[int | None, ...] | None, updates: tuple[int | None, ...] | None
) -> tuple[int | None, int]:
    """How many updates there are, and the elements of each as far as they are known."""
    if not indices or None in indices[:-1]:
        return None, 1
    inner = (updates or ())[len(indices) - 1 :]
    return math.prod(n or 0 for n in indices[:-1]), math.prod(n or 1 for n in inner)


def _all_differ(indices: np.ndarray | None, shape: tuple[int | None, ...] | None, depth: int) -> bool:
    if indices is None or shape is None or None in shape[:depth] or 0 in shape[:depth]:
        return False
    tuples = indices.reshape(-1, depth) % np.array(shape[:depth], np.int64)
    return len(np.unique(tuples, axis=0)) == len(tuples)


SCATTER_ND = NodeRule(
    "scatter-nd",
    "ScatterND with a reduction",
    ("ScatterND",),
    _rewrite,
)

"""ScatterND with a reduction, by one without: TensorRT's scatter overwrites, and orders nothing.

As for ScatterElements, updates with the same index tuple are combined first, found by comparing the M tuples in pairs;
then each with the slice that it goes to. The pairs cost M times the size of the updates.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import read_by, reduce, slice_, unsqueeze
from converter.passes.reductions import REDUCTIONS

LARGEST = 1 << 28
"""Elements of the largest tensor of pairs that is built: 1 GiB of float32."""


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
    pairs = _pairs(indices, node.shape(2))
    if pairs is not None and pairs > LARGEST:
        return Refusal(
            f"indices of shape {list(indices or ())} and updates of shape {list(node.shape(2) or ())} make "
            f"{pairs:,} pairs",
            f"at most {LARGEST:,} pairs",
            "scatter in several nodes, or make the indices constant and all different",
        )
    reduction = REDUCTIONS[name]
    unique = _all_differ(node.constant(1), node.shape(0), depth)
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
        {"combined = Identity (updates)" if unique else _combined(reduction.over, rank - depth, node.opset)}
        old = GatherND (x0, indices)
        new = {reduction.combine} (old, combined)
        y0 = ScatterND (x0, indices, new)
    """
    constants = {
        "tuples_shape": np.array([-1, depth]),
        "rest": np.array([-1]),
        "zero": np.array(0),
        "depth": np.array(depth, np.int32),
        "neutral": reduction.neutral(dtype),
    }
    how = "constant indices that differ" if unique else "updates of one slice combined first"
    return Replacement(node.statements(body, **read_by(body, constants)), f"ScatterND, {how}")


def _combined(over: str, inner_rank: int, opset: int) -> str:
    """Two tuples are the same if all of their parts are."""
    return f"""
        {unsqueeze("targets", "indices", [1], opset)}
        {unsqueeze("sources", "indices", [0], opset)}
        {unsqueeze("values", "updates", [0], opset)}
        equal = Equal (targets, sources)
        ones = Cast <to = 6> (equal)
        {reduce("ReduceSum", "parts", "ones", [2], opset, keepdims=False)}
        alike = Equal (parts, depth)
        {unsqueeze("same", "alike", list(range(2, 2 + inner_rank)), opset)}
        counted = Where (same, values, neutral)
        {reduce(over, "combined", "counted", [1], opset, keepdims=False)}
    """


def _pairs(indices: tuple[int | None, ...] | None, updates: tuple[int | None, ...] | None) -> int | None:
    if not indices or updates is None or None in indices or None in updates:
        return None
    count, size = (int(np.prod([n or 0 for n in shape], dtype=object)) for shape in (indices[:-1], updates))
    return count * size


def _all_differ(indices: np.ndarray | None, shape: tuple[int | None, ...] | None, depth: int) -> bool:
    if indices is None or shape is None or None in shape[:depth] or 0 in shape[:depth]:
        return False
    tuples = indices.reshape(-1, depth) % np.array(shape[:depth], np.int64)
    return len(np.unique(tuples, axis=0)) == len(tuples)


def _example(reduction: str, dtype: str, opset: int = 18) -> Example:
    return Example(
        f"{reduction}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g ({dtype}[3, 4, 2] x, int64[2, 3, 2] i, {dtype}[2, 3, 2] u) => ({dtype}[3, 4, 2] y) {{
            y = ScatterND <reduction = "{reduction}"> (x, i, u)
        }}""",
        feeds={"i": np.array([[[0, 1], [2, 3], [0, 1]], [[0, 3], [0, 1], [2, -1]]])},
    )


SCATTER_ND = NodeRule(
    "scatter-nd",
    "ScatterND with a reduction",
    ("ScatterND",),
    _rewrite,
    (
        *(_example(reduction, "float") for reduction in REDUCTIONS),
        _example("add", "int64"),
        _example("max", "int32"),
        _example("mul", "float", 16),
        Example(
            "slices",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[4, 3, 2] x, int64[3, 1] i, float[3, 3, 2] u) => (float[4, 3, 2] y) {
                y = ScatterND <reduction = "add"> (x, i, u)
            }""",
            feeds={"i": np.array([[2], [0], [2]])},
        ),
        Example(
            "constant",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[4, 3] x, float[3, 3] u) => (float[4, 3] y) <int64[3, 1] i = {2, 0, -1}> {
                y = ScatterND <reduction = "min"> (x, i, u)
            }""",
        ),
    ),
)

"""ScatterElements with a reduction, or with more indices than elements, by what TensorRT has.

TensorRT's scatter overwrites, and orders nothing.

Each update is first combined with all updates that go to the same element, by comparing their indices in pairs, then
with the element itself. Updates of one element then carry the same value, so that it matters not which is written
last. The pairs cost the size of the indices times their length along the axis.

TensorRT-RTX 1.7.1 also refuses indices that are longer than the data, along the axis too. ScatterND with the
coordinates of every element does the same, and has no such limit.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import read_by, reduce, unsqueeze
from converter.passes.reductions import REDUCTIONS

LARGEST = 1 << 28
"""Elements of the largest tensor of pairs that is built: 1 GiB of float32."""


_WRAPPED = """
    given = Cast <to = 7> (x1)
    shape = Shape (x0)
    length = Gather <axis = 0> (shape, axis)
    below = Less (given, zero)
    from_end = Add (given, length)
    indices = Where (below, from_end, given)
"""
"""Indices from 0 on: -1 and the last one are the same element."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    name = node.attributes.get("reduction", "none")
    rank, dtype = node.rank(0), node.dtype(0)
    fits = _fits(node.shape(1), node.shape(0))
    if name == "none" and (fits or not rank):
        return None
    if (name != "none" and name not in REDUCTIONS) or not rank or dtype is None:
        return Refusal(
            f"reduction {name!r} on a tensor of rank {rank} and type {dtype}",
            f"one of {', '.join(REDUCTIONS)}, and a known rank and type",
            "run onnx.shape_inference on the model, or export it with shapes",
        )
    axis = int(node.attributes.get("axis", 0)) % rank
    unique = name == "none" or _all_differ(node.constant(1), node.shape(0), axis)
    pairs = None if unique else _pairs(node.shape(1), axis)
    if pairs is not None and pairs > LARGEST:
        return Refusal(
            f"the {node.shape(1)} indices make {pairs:,} pairs along axis {axis}",
            f"at most {LARGEST:,} pairs",
            "scatter in several nodes, or along a shorter axis",
        )
    reduction = REDUCTIONS.get(name)
    where = f"<axis = {axis}> (x0, indices" if fits else "(x0, coordinates"
    gather, scatter = ("GatherElements", "ScatterElements") if fits else ("GatherND", "ScatterND")
    body = f"""
        {_WRAPPED}
        {"" if fits else _coordinates(axis, rank, node.opset)}
        {_combined(reduction.over, axis, node.opset) if reduction and not unique else "combined = Identity (x2)"}
        {f"old = {gather} {where})" if reduction else ""}
        {f"new = {reduction.combine} (old, combined)" if reduction else "new = Identity (combined)"}
        y0 = {scatter} {where}, new)
    """
    constants = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "axis": np.array(axis, np.int64),
        "neutral": reduction.neutral(dtype) if reduction else np.array(0),
    }
    constants |= {f"number_{i}": np.array(i, np.int64) for i in range(rank)}
    how = "" if unique else ", updates of one element combined first"
    return Replacement(node.statements(body, **read_by(body, constants)), f"{scatter}{how}")


def _fits(indices: tuple[int | None, ...] | None, data: tuple[int | None, ...] | None) -> bool:
    """Whether the parser takes the sizes; it lets those pass that it does not know."""
    if indices is None or data is None or len(indices) != len(data):
        return True
    return all(i is None or d is None or i <= d for i, d in zip(indices, data, strict=True))


def _coordinates(axis: int, rank: int, opset: int) -> str:
    """Along a new last dimension: the element's own position, but for the axis, where it is the index."""
    lines = ["indices_shape = Shape (indices)"]
    for at in range(rank):
        if at == axis:
            lines.append(f"part_{at} = Identity (indices)")
        else:
            others = [i for i in range(rank) if i != at]
            lines += [
                f"size_{at} = Gather <axis = 0> (indices_shape, number_{at})",
                f"count_{at} = Range (zero, size_{at}, one)",
                unsqueeze(f"column_{at}", f"count_{at}", others, opset),
                f"part_{at} = Expand (column_{at}, indices_shape)",
            ]
        lines.append(unsqueeze(f"row_{at}", f"part_{at}", [rank], opset))
    rows = ", ".join(f"row_{at}" for at in range(rank))
    return "\n".join((*lines, f"coordinates = Concat <axis = {rank}> ({rows})"))


def _combined(over: str, axis: int, opset: int) -> str:
    return f"""
        {unsqueeze("targets", "indices", [axis + 1], opset)}
        {unsqueeze("sources", "indices", [axis], opset)}
        {unsqueeze("values", "x2", [axis], opset)}
        same = Equal (targets, sources)
        counted = Where (same, values, neutral)
        {reduce(over, "combined", "counted", [axis + 1], opset, keepdims=False)}
    """


def _pairs(shape: tuple[int | None, ...] | None, axis: int) -> int | None:
    if shape is None or None in shape:
        return None
    return int(np.prod([size or 0 for size in shape], dtype=object)) * (shape[axis] or 0)


def _all_differ(indices: np.ndarray | None, shape: tuple[int | None, ...] | None, axis: int) -> bool:
    length = shape[axis] if shape else None
    if indices is None or length is None:
        return False
    ordered = np.sort(indices % length if length else indices, axis=axis)
    return bool(np.all(np.diff(ordered, axis=axis) > 0))


def _example(reduction: str, dtype: str, opset: int = 18, reference: bool = False) -> Example:
    return Example(
        f"{reduction}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g ({dtype}[3, 6, 2] x, int64[2, 5, 2] i, {dtype}[2, 5, 2] u) => ({dtype}[3, 6, 2] y) {{
            y = ScatterElements <axis = 1, reduction = "{reduction}"> (x, i, u)
        }}""",
        feeds={"i": np.arange(20).reshape(2, 5, 2) * 7 % 12 // 3 - 2},
        reference=reference,
    )


SCATTER_ELEMENTS = NodeRule(
    "scatter-elements",
    "ScatterElements with a reduction, or with more indices than elements",
    ("ScatterElements",),
    _rewrite,
    (
        *(_example(reduction, "float") for reduction in REDUCTIONS),
        *(_example(reduction, "int64") for reduction in ("add", "max", "min")),
        _example("mul", "int32", 16),
        _example("max", "float16", reference=True),
        Example(
            "constant",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[2, 5] x, float[2, 3] u) => (float[2, 5] y)
            <int64[2, 3] i = {0, -1, 2, 1, 4, -3}> {
                y = ScatterElements <axis = -1, reduction = "add"> (x, i, u)
            }""",
        ),
        Example(
            "many to few",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[2, 3, 2] x, int64[2, 7, 2] i, float[2, 7, 2] u) => (float[2, 3, 2] y, float[2, 3, 2] z) {
                y = ScatterElements <axis = 1, reduction = "add"> (x, i, u)
                none = Sub (u, u)
                z = ScatterElements <axis = 1> (x, i, none)
            }""",
            feeds={"i": np.arange(28).reshape(2, 7, 2) * 5 % 11 % 3 - 1},
        ),
        Example(
            "not finite",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[5] x, int32[4] i, float[4] u) => (float[5] y) {
                y = ScatterElements <reduction = "add"> (x, i, u)
            }""",
            feeds={
                "i": np.array([0, 3, 3, -5], np.int32),
                "u": np.array([np.inf, np.nan, 1, 2], np.float32),
            },
        ),
    ),
)

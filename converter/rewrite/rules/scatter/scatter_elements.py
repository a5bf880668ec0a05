"""ScatterElements with a reduction, or with more indices than elements, by what TensorRT has.

TensorRT's scatter overwrites, and orders nothing.

Each update is first combined with all updates that go to the same element, by comparing their indices in pairs, then
with the element itself. Updates of one element then carry the same value, so that it matters not which is written
last. The pairs cost the size of the indices times their length along the axis, in parts.

TensorRT-RTX 1.7.1 also refuses indices that are longer than the data, along the axis too. ScatterND with the
coordinates of every element does the same, and has no such limit.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.scatter.scatter_parts import Scatter, coordinates, write_in_parts
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import PAIRS, PARTS, REDUCTIONS, parts


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
    cuts = [] if unique else parts(*_sizes(node.shape(1), axis))
    if cuts is None:
        return Refusal(
            f"the indices of shape {list(node.shape(1) or ())} are too many to be compared in pairs along axis {axis}",
            f"indices that fit into {PARTS} parts of {PAIRS:,} pairs",
            "scatter in several nodes, or along a shorter axis",
        )
    reduction = REDUCTIONS.get(name)
    w = Writer(node)
    given = w.cast("x1", "int64")
    length = w.do("Gather", w.do("Shape", "x0"), np.array(axis), axis=0)
    # From 0 on: -1 and the last one are the same element.
    below = w.do("Less", given, np.array(0))
    indices = w.do("Where", below, w.do("Add", given, length), given)
    at = indices if fits else coordinates(w, indices, axis, rank)
    write_in_parts(w, Scatter(axis, fits, unique, reduction, dtype), cuts, indices, at)
    how = "" if unique else ", updates of one element combined first"
    what = ("ScatterElements" if fits else "ScatterND") + how
    return Replacement(w.nodes(), what)


def _fits(indices: tuple[int | None, ...] | None, data: tuple[int | None, ...] | None) -> bool:
    """Whether the parser takes the sizes; it lets those pass that it does not know."""
    if indices is None or data is None or len(indices) != len(data):
        return True
    return all(i is None or d is None or i <= d for i, d in zip(indices, data, strict=True))


def _sizes(shape: tuple[int | None, ...] | None, axis: int) -> tuple[int | None, int]:
    """The length along the axis, and the product of the other sizes as far as they are known."""
    if shape is None or shape[axis] is None:
        return None, 1
    return shape[axis], math.prod(size or 1 for at, size in enumerate(shape) if at != axis)


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
            "in parts",
            """<ir_version: 9, opset_import: ["" : 18]>
            g (float[9, 3] x, int64[8192, 3] i, float[8192, 3] u) => (float[9, 3] y) {
                y = ScatterElements <reduction = "max"> (x, i, u)
            }""",
            feeds={"i": np.arange(3 * 8192).reshape(8192, 3) ** 2 % 13 % 9},
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

"""Finds the positions at which a tensor is not zero: NonZero of ONNX, whose number of results depends on values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.dims import Unknown
from trtsmith.importers.opdef import Arrays, Case, Expansion, Fields, OpDef, Port, Shapes


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    rank = len(shapes["x"]) if "x" in shapes else Unknown()
    return {"positions": (rank, *shapes["count"]), "count": ()}


def _bounds(_fields: Fields, shapes: Shapes) -> dict[str, Any]:
    return {"count": math.prod(shapes["x"])}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    x = shapes.get("x")
    return ["x has no dimensions, so that its elements have no positions"] if x == () else []


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Every position asked in row-major order: what ONNX's text says, without numpy's own operator."""
    x = inputs["x"]
    found = [at for at in np.ndindex(x.shape) if x[at] != 0]
    positions = np.array(found, np.int64).reshape(len(found), x.ndim).T
    return {"positions": positions, "count": np.array(len(found), np.int32)}


def _expand(expansion: Expansion) -> tuple[Value, Value]:
    """Writes NonZero in other operators: the numbers of the set elements, then positions, axis by axis from the last.

    A cast to bool says what is zero, exactly. Divisors are not 0, although sizes may be.
    """
    g = Builder(expansion.opset)
    is_set = g.Reshape(g.Cast("x", to="bool"), [-1])
    sizes = g.Shape("x")
    found = g.Compress(g.Range(0, g.ReduceProd(sizes, keepdims=0), 1), is_set, axis=0)
    divisors = g.Where(g.Cast(sizes, to="bool"), sizes, 1)

    def divide(i: Value, go: Value, rest: Value) -> tuple[Value, Value, Value]:
        size = g.Gather(divisors, -(i + 1), axis=0)
        return go, rest / size, g.Mod(rest, size)

    signature = "(int64 i, bool keep, int64[n] rest) => (bool keep_on, int64[n] rest_next, int64[n] digit)"
    _, digits = g.Loop(g.Size(sizes), True, found, body=g.graph(signature, divide), outputs=2)
    positions = g.Slice(digits, [-1], [np.iinfo(np.int64).min], [0], [-1])
    return positions, g.Cast(g.Size(found), to="int32")


def _inputs(*shape: int, share: float = 0.4) -> Any:
    """Integers that every element type holds, `share` of them not zero."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        values = rng.integers(1, 100, shape) * rng.choice([-1.0, 1.0], shape)
        return {"x": np.where(rng.random(shape) < share, values, 0.0)}

    return make


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A NaN and infinities are not zero, a negative zero is; 1e-45 is the smallest float32 and zero in other types."""
    return {
        "x": np.array([[0.0, -0.0, np.nan, np.inf], [-np.inf, 1e-45, -1e-45, 0.0], [2.0, 0.0, -0.0, -3.0]])
    }


NON_ZERO_POSITIONS = OpDef(
    name="NonZeroPositions",
    selects="set",
    onnx="NonZero",
    doc="The positions of the elements that are not zero, in row-major order, and their number. A NaN is not zero.",
    inputs=(Port("x", "V", None, "[...], one dimension at least"),),
    outputs=(
        Port("positions", "N", 2, "[rank of x, count]"),
        Port("count", "S", 0, "number of elements that are not zero", size=True),
    ),
    fields=(),
    shape=_shape,
    bounds=_bounds,
    check=_check,
    reference=_reference,
    expand=_expand,
    cases=(
        Case("one_of_each", {}, _inputs(1, 1, share=1.0)),
        Case("one_zero", {}, _inputs(1, share=0.0)),
        Case("vector", {}, _inputs(37)),
        Case("matrix", {}, _inputs(5, 7)),
        Case("eight_dimensions", {}, _inputs(2, 1, 3, 2, 1, 2, 3, 2)),
        Case("nothing_set", {}, _inputs(3, 50, share=0.0)),
        Case("all_set", {}, _inputs(9, 11, 13, share=1.0)),
        Case("strange_numbers", {}, _strange),
        Case("one_tile", {}, _inputs(16, 256)),
        Case("odd_tiles", {}, _inputs(3, 41, 101)),
        Case("no_batch", {}, _inputs(0, 4)),
        Case("no_columns", {}, _inputs(3, 0, 2)),
        Case("large", {}, _inputs(3, 350, 1001), large=True),
        Case("many_tiles", {}, _inputs(1_200_003, share=0.01), large=True),
    ),
    workspace=True,
)

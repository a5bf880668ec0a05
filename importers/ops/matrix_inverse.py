"""Inverts square matrices, as numpy.linalg.inv over the last two dimensions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Alias, Arrays, Case, Expansion, Fields, OpDef, Port, Shapes, Work


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": tuple(shapes["x"])}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    x = shapes.get("x")
    if x is None:
        return []
    if len(x) < 2:
        return [f"x has rank {len(x)}, but a matrix has at least 2"]
    if None not in x[-2:] and x[-2] != x[-1]:
        return [f"the matrices of x are not square: {x[-2]} x {x[-1]}"]
    return []


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    return {"output": np.linalg.inv(inputs["x"].astype(np.float64))}


def _torch_reference(_fields: Fields, inputs: Any) -> tuple[Any]:
    """LAPACK's LU, through PyTorch; in float32 for the narrow types, which PyTorch does not invert."""
    import torch

    x = inputs["x"]
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return (torch.linalg.inv_ex(wide).inverse.to(x.dtype),)


def _expand(expansion: Expansion) -> Value:
    """Gauss-Jordan elimination with partial pivoting on [x | I], one column an iteration, all matrices at once."""
    g = Builder(expansion.opset)
    shape = g.Shape("x")
    n = shape[-1:]
    batch = g.ReduceProd([1, shape[:-2]], keepdims=1)
    matrices_shape = g.vector(batch, n, n)
    count = g.Squeeze(n)
    index = g.Range(0, count, 1)
    identity = g.Cast(g.Equal(g.Reshape(index, [n, 1]), index), to="float32")
    start = g.Concat(g.Reshape("x", matrices_shape), g.Expand(identity, matrices_shape), axis=2)
    rows = g.Reshape(index, [1, n, 1])
    width = n * [2]
    row_shape = g.vector(batch, 1, width)

    def eliminate(k: Value, go: Value, m: Value) -> tuple[Value, Value]:
        k_vector = g.Reshape(k, [1])
        candidates = g.Where(rows < k, -1.0, g.Abs(g.Gather(m, k_vector, axis=2)))
        pivot_row = g.ArgMax(candidates, axis=1, keepdims=1)
        row = g.GatherElements(m, g.Expand(pivot_row, row_shape), axis=1)
        normalised = row / g.Gather(row, k_vector, axis=2)
        exchanged = g.Where(g.Equal(rows, pivot_row), g.Gather(m, k_vector, axis=1), m)
        rest = exchanged - g.Gather(exchanged, k_vector, axis=2) * normalised
        return go, g.Where(g.Equal(rows, k), normalised, rest)

    signature = "(int64 k, bool go, float[B, n, w] m) => (bool go_on, float[B, n, w] m_next)"
    reduced = g.Loop(count, True, start, body=g.graph(signature, eliminate))
    return g.Reshape(g.Slice(reduced, n, width, [2]), shape)


def _inputs(*shape: int, spread: float = 0.5) -> Any:
    """Matrices near a scaled, row-permuted identity, so that pivoting is needed and the condition is moderate."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        n = shape[-1]
        x = rng.normal(size=shape) * (spread / max(n, 1) ** 0.5) + np.eye(n) * rng.uniform(
            1, 3, (*shape[:-1], 1)
        )
        return {"x": x[..., rng.permutation(n), :]}

    return make


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """2 n^3 for each matrix: elimination, and the solution of n right-hand sides (Golub and Van Loan, 3.2)."""
    *leading, n, _ = shapes["x"]
    return Work(flops=2 * math.prod(leading) * n**3)


MATRIX_INVERSE = OpDef(
    name="MatrixInverse",
    doc="The inverse of each square matrix. A singular matrix gives infinities or NaN, in that matrix alone.",
    inputs=(Port("x", "T", None, "[..., n, n]", meaning=Meaning.INVERTIBLE),),
    outputs=(Port("output", "T", None, "[..., n, n]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(op_type="Inverse", domains=("com.microsoft",), inputs=("x",), source="onnxruntime contrib"),
        Alias(op_type="InverseTRT", domains=(), inputs=("x",), source="BEVFormer_tensorrt"),
        Alias(op_type="InversePlugin", domains=("custom_op",), inputs=("x",), source="NVIDIA DL4AGX"),
    ),
    cases=(
        Case("one_of_each", {}, _inputs(1, 1)),
        Case("two_by_two", {}, _inputs(5, 2, 2)),
        Case("rotations", {}, _inputs(2, 3, 3, 3)),
        Case("poses", {}, _inputs(6, 4, 4)),
        Case("rank_two", {}, _inputs(7, 7)),
        Case("many_small", {}, _inputs(1025, 3, 3)),
        Case("odd", {}, _inputs(3, 33, 33)),
        Case("shared_memory_limit", {}, _inputs(2, 96, 96)),
        Case("through_workspace", {}, _inputs(2, 97, 97)),
        Case("no_batch", {}, _inputs(0, 4, 4)),
        Case("no_rows", {}, _inputs(3, 0, 0)),
        Case("large", {}, _inputs(300, 130, 130), large=True),
        Case("many_poses", {}, _inputs(1_000_003, 4, 4), large=True),
    ),
    tolerance={"float32": 1.3e-6, "float16": 6e-4, "bfloat16": 4.5e-3},
    benchmarks=(Case("million_poses", {}, _inputs(1_000_000, 4, 4)),),
    work=_work,
    float32_only="an inverse: the rounding of its input is multiplied by the condition number",
    aten={
        "linalg_inv": lambda emit, a: emit(a),
        "inverse": lambda emit, a: emit(a),
        "linalg_inv_ex": lambda emit, a, check_errors=False: (emit(a), a.new_zeros(a.shape[:-2]).int()),
    },
    workspace=True,
)

"""Rewrites DFT, for which TensorRT-RTX has no layer, as a product with a matrix of cosines and sines."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.signal.dft_matrix import computed, forward, inverse, inverse_real

_LARGEST = 4096
"""Points up to which the matrix is worth its memory: 4096 in and out, complex, are 256 MiB of float32."""

PRODUCT = (
    "a Fourier transform is computed as a matrix product in float32: its rounding error grows with the length, and "
    "TensorRT may multiply in TF32"
)


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape, dtype = node.shape(0), node.dtype(0)
    if shape is None or dtype is None or shape[-1] not in (1, 2):
        return Refusal(
            f"the type of {node.input(0)!r}, or whether it is real or complex, is unknown",
            "a last dimension of 1 or 2",
            "give the input's shape, or run onnx.shape_inference on the model",
        )
    axis = _axis(node, len(shape))
    if isinstance(axis, Refusal):
        return axis
    length = node.constant(1)
    if node.input(1) and length is None:
        return Refusal(
            f"dft_length ({node.input(1)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {node.input(1)}=N",
        )
    given = None if length is None else int(length.reshape(-1)[0])
    back, half = bool(node.attributes.get("inverse")), bool(node.attributes.get("onesided"))
    points = shape[axis]
    size = given or points or 0
    if given is None and points is not None and back and half:
        size = 2 * (points - 1)
    if size > _LARGEST:
        return Refusal(
            f"a transform of {size} points",
            f"at most {_LARGEST}: it becomes a product with a matrix",
            "split the transform, or compute it outside of the network",
        )
    w = Writer(node)
    data = w.Cast(w.x[0], to="float32") if dtype in ("float16", "bfloat16") else w.x[0]
    order = [*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1]
    data = w.Transpose(data, perm=order) if axis != len(shape) - 2 else data
    parts = 1 if shape[-1] == 1 else 2
    if points is None:
        data, matrix = _dynamic(w, data, len(shape), given, parts, back, half)
    else:
        data, array = _static(w, data, len(shape), points, size, parts, back, half)
        matrix = w.constant(array.astype(np.float64 if dtype == "float64" else np.float32))
    product = w.MatMul(w.Reshape(data, [*[0] * (len(shape) - 2), -1]), matrix)
    outer = 1 if back and half else 2
    result = w.Reshape(product, [*[0] * (len(shape) - 2), -1, outer])
    restored = [order.index(i) for i in range(len(shape))]
    result = w.Transpose(result, perm=restored) if restored != sorted(restored) else result
    result = w.Cast(result, to=dtype) if dtype in ("float16", "bfloat16") else result
    return Replacement(w.finish(result), "DFT as a product with its matrix", numerics=PRODUCT)


def _axis(node: NodeView, rank: int) -> int | Refusal:
    if node.version < 20:
        return int(node.attributes.get("axis", 1)) % rank
    if not node.input(2):
        return rank - 2
    value = node.constant(2)
    if value is None:
        return Refusal(
            f"the axis ({node.input(2)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {node.input(2)}=AXIS",
        )
    return int(value.reshape(-1)[0]) % rank


def _static(
    w: Writer, data: Value, rank: int, points: int, size: int, parts: int, back: bool, half: bool
) -> tuple[Value, np.ndarray]:
    """The points that count, and the matrix. A longer signal is cut, a shorter one is as if it ended in zeros."""
    wanted = size // 2 + 1 if back and half else size
    used = min(points, wanted)
    if used < points:
        data = w.slice(data, [0], [used], [rank - 2])
    if back:
        return data, inverse_real(used, size, parts) if half else inverse(used, size, parts)
    return data, forward(used, size, size // 2 + 1 if half else size, parts)


def _dynamic(
    w: Writer, data: Value, rank: int, given: int | None, parts: int, back: bool, half: bool
) -> tuple[Value, Value]:
    """The same for a signal whose length is known at run time only."""
    if given is not None:
        limit = given // 2 + 1 if back and half else given
        data = w.slice(data, [0], [limit], [rank - 2])
    points = w.size(data, rank - 2)
    length = points if given is None else w.constant([given])
    if given is None and back and half:
        length = w.Mul(w.Sub(points, [1]), [2])
    bins = w.Add(w.Div(length, [2]), [1]) if half and not back else length
    return data, computed(w, points, length, bins, parts, back=back, real_out=back and half)


DFT = NodeRule(
    "dft",
    "DFT becomes a product with its matrix",
    ("DFT",),
    _rewrite,
)

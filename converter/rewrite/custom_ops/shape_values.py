"""Evaluates the target of a Reshape that exporters compute by Shape, Gather, Mul and Concat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.custom_ops.surgery import constant_of, domain_of

_DEPTH = 16
"""Nodes from a Reshape up to the Shape that its target comes from. torch writes at most six."""


def dims_of(tensor: gs.Tensor) -> tuple[Dim, ...] | None:
    """Returns the tensor's inferred shape; None for an unknown rank."""
    if tensor.shape is None:
        return None
    return tuple(
        int(d) if isinstance(d, (int, np.integer)) else d if isinstance(d, str) and d else None
        for d in tensor.shape
    )


def shape_values(tensor: gs.Tensor, depth: int = _DEPTH) -> tuple[Dim, ...] | None:
    """Returns the elements of a small integer tensor of rank 0 or 1; None if not even their number is known."""
    if tensor.shape is not None and len(tensor.shape) > 1:
        return None
    constant = constant_of(tensor)
    if constant is not None:
        whole = constant.dtype.kind in "iu" and constant.ndim < 2
        return tuple(int(value) for value in constant.reshape(-1)) if whole else None
    node = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if node is None or domain_of(node) or not depth:
        return None
    if node.op == "Shape":
        dims = dims_of(node.inputs[0])
        return dims[node.attrs.get("start", 0) : node.attrs.get("end")] if dims is not None else None
    if node.op == "Mul":
        return (None,) if tensor.shape is not None and len(tensor.shape) == 0 else None
    if node.op not in ("Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze"):
        return None
    parts = [shape_values(part, depth - 1) for part in node.inputs]
    known = [part for part in parts if part is not None]
    return _moved(node.op, known) if known and len(known) == len(parts) else None


def _moved(op: str, parts: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    """The result of an operator that moves elements."""
    data = parts[0]
    if op == "Concat":
        return tuple(chain.from_iterable(parts))
    if op == "Gather":
        indices = [index for index in parts[1] if isinstance(index, int) and -len(data) <= index < len(data)]
        return tuple(data[index] for index in indices) if len(indices) == len(parts[1]) else None
    if op == "Slice":
        start, end, step = parts[1][:1], parts[2][:1], parts[4][:1] if len(parts) > 4 else (1,)
        bounds = [bound for bound in (*start, *end, *step) if isinstance(bound, int)]
        return data[slice(*bounds)] if len(bounds) == 3 else None
    return data

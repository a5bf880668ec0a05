"""Finds the one index of each row in the indices of a ScatterElements, which are broadcast over the rest of the row.

Exporters write the index [E] of each row as [E, 1], and expand it to the shape of the updates, [E, F].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim, dims_of
from trtsmith.converter.rewrite.engine.node_rule import NodeView

_STEPS = 8
"""Of Expand, Tile, Unsqueeze, Cast and Identity, one behind the other."""

_INTEGERS = (6, 7)
"""int32 and int64, by ONNX's numbers."""


def row_index(node: NodeView, operand: int, axis: int) -> np.ndarray | str | None:
    """What holds the indices of the rows along `axis` of an input of the node: an array [E], or a value of one dimension
    that is not 1, of E elements, or of one that holds for all rows.

    None where the elements of a row are not seen to have the same index.
    """
    name = node.input(operand)
    for _ in range(_STEPS):
        dims = _dims(node, name)
        if dims is None or not 0 <= axis < len(dims):
            return None
        constant = node.constant_of(name)
        if constant is not None:
            return _of_each_row(constant, axis)
        if all(dim == 1 for at, dim in enumerate(dims) if at != axis):
            return name
        maker = node.maker_of(name)
        if maker is None or maker.domain:
            return None
        found = _before(maker, axis, dims)
        if found is None:
            return None
        name, axis = maker.input(0), found
    return None


def same_size(one: Dim, other: Dim) -> bool:
    """Whether two sizes are known to be the same number."""
    return one is not None and one == other


def row_count(node: NodeView, name: str) -> Dim:
    """How many indices a value has that `row_index` found."""
    dims = _dims(node, name) or ()
    return next((dim for dim in dims if dim != 1), 1)


def _dims(node: NodeView, name: str) -> tuple[Dim, ...] | None:
    kind = node.type_of(name)
    return None if kind is None else dims_of(kind)


def _of_each_row(constant: np.ndarray, axis: int) -> np.ndarray | None:
    rows = np.moveaxis(constant, axis, 0).reshape(constant.shape[axis], -1)
    return rows[:, 0] if rows.shape[1] and bool(np.all(rows == rows[:, :1])) else None


def _before(maker: NodeView, axis: int, dims: Sequence[Dim]) -> int | None:
    """The axis of the maker's first input along which its elements lie as they do along `axis` of what it makes."""
    given = maker.dims(0)
    if given is None:
        return None
    if maker.op_type == "Identity":
        return axis
    if maker.op_type == "Cast":
        kind = maker.type_proto(0)
        whole = kind is not None and kind.tensor_type.elem_type in _INTEGERS
        return axis if whole and maker.attributes.get("to") in _INTEGERS else None
    if maker.op_type == "Unsqueeze":
        axes = maker.constant(1) if maker.input(1) else maker.attributes.get("axes")
        if axes is None:
            return None
        made = {int(at) % len(dims) for at in np.ravel(axes)}
        return None if axis in made else axis - sum(at < axis for at in made)
    if maker.op_type == "Expand":
        before = axis - (len(dims) - len(given))
        return before if before >= 0 else None
    if maker.op_type == "Tile":
        repeats = maker.constant(1)
        return axis if repeats is not None and repeats.reshape(-1)[axis] == 1 else None
    return None

"""Replaces scatters that reduce whole rows by our plugin, as graph networks sum edge messages per node.

PyTorch's scatter_add and scatter_reduce of an expanded index, by which PyTorch Geometric and torch_scatter aggregate, are
ScatterElements whose indices are those of rows, broadcast along them; index_add and index_put are a ScatterND. The rules
behind this one compare all indices in pairs, which takes the square of their number; the plugin sorts them.

Only where the indices are seen to be of whole rows: an Expand or a Tile of a column, a constant of equal columns, or data of
one dimension. Left to the other rules are products, other types than the plugin's, and constant indices that all differ, for
which nothing has to be compared.

Finds the one index of each row in the indices of a ScatterElements, which are broadcast over the rest of the row.

Exporters write the index [E] of each row as [E, 1], and expand it to the shape of the updates, [E, F].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.graph.tensor_types import Dim, dims_of
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import OPS

_STEPS = 8
"""Of Expand, Tile, Unsqueeze, Cast and Identity, one behind the other."""

_INTEGERS = (6, 7)
"""int32 and int64, by ONNX's numbers."""


def row_index(node: NodeView, operand: int, axis: int) -> np.ndarray | str | None:
    """Returns the row indices along `axis` of one of the node's inputs: an array [E], or the name of a value with one
    dimension that is not 1, of E elements, or of a single index for all rows.

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
    """Tells whether two sizes are known to be equal."""
    return one is not None and one == other


def row_count(node: NodeView, name: str) -> Dim:
    """Returns the number of indices in a value that `row_index` found."""
    dims = _dims(node, name) or ()
    return next((dim for dim in dims if dim != 1), 1)


def _dims(node: NodeView, name: str) -> tuple[Dim, ...] | None:
    kind = node.type_of(name)
    return None if kind is None else dims_of(kind)


def _of_each_row(constant: np.ndarray, axis: int) -> np.ndarray | None:
    rows = np.moveaxis(constant, axis, 0).reshape(constant.shape[axis], -1)
    return rows[:, 0] if rows.shape[1] and bool(np.all(rows == rows[:, :1])) else None


def _before(maker: NodeView, axis: int, dims: Sequence[Dim]) -> int | None:
    """The axis of the maker's first input that becomes `axis` of its output; None if there is none."""
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


NAME = "scatter-rows-plugin"
PLUGIN = next(op for op in OPS if op.chain == NAME)

_REDUCTIONS = {"add": 0, "max": 2, "min": 3}
"""By ONNX's names, the plugin's numbers."""

_NAN = "the largest and the smallest ignore NaN"


@dataclass(frozen=True)
class _Rows:
    """A reduction of whole rows. axis: of data, along which the rows lie. index: an array or a value, [E].

    source: the value with the rows, along the same axis.
    """

    axis: int
    index: np.ndarray | Value
    source: Value


@node_rule(NAME, "ScatterElements", "ScatterND")
def scatter_rows_plugin_rule(node: NodeView) -> Replacement | None:
    """Rewrites ScatterElements and ScatterND that reduce whole rows as a plugin."""
    reduction, rank = node.attributes.get("reduction", "none"), node.rank(0)
    if reduction not in _REDUCTIONS or node.dtype(0) not in TYPE_VARIABLES[PLUGIN.key] or not rank:
        return None
    w = Writer(node)
    rows = _slices(w) if node.op_type == "ScatterND" else _elements(w, rank)
    index = None if rows is None else _index(w, rows)
    if rows is None or index is None:
        return None
    fields = {"reduction": _REDUCTIONS[reduction]}
    if rows.axis == 0:
        (result,) = plugin_outputs(w, PLUGIN, [w.x[0], index, rows.source], fields)
    else:
        order = [rows.axis, *(axis for axis in range(rank) if axis != rows.axis)]
        data, source = w.Transpose(w.x[0], perm=order), w.Transpose(rows.source, perm=order)
        (reduced,) = plugin_outputs(w, PLUGIN, [data, index, source], fields)
        result = w.Transpose(reduced, perm=[int(axis) for axis in np.argsort(order)])
    return Replacement(w.finish(result), f"plugin {PLUGIN.name}", notes=() if reduction == "add" else (_NAN,))


def _slices(w: Writer) -> _Rows | None:
    """The row reduction of a ScatterND whose tuples have one index each; None for others."""
    node = w.node
    indices, data = node.shape(1), node.shape(0) or ()
    if not indices or indices[-1] != 1:
        return None
    constant = node.constant(1)
    source = w.x[2]
    if len(indices) != 2:
        sizes = [w.size(w.x[0], axis) if size is None else size for axis, size in enumerate(data) if axis > 0]
        source = w.Reshape(w.x[2], shape=[-1, *sizes])
    return _Rows(0, w.Reshape(w.x[1], shape=[-1]) if constant is None else constant.reshape(-1), source)


def _elements(w: Writer, rank: int) -> _Rows | None:
    """The row reduction of a ScatterElements that writes whole rows; None for others."""
    node = w.node
    axis = int(node.attributes.get("axis", 0)) % rank
    data, indices, updates = (node.dims(at) for at in range(3))
    if data is None or indices is None or updates is None or not len(indices) == len(updates) == rank:
        return None
    others = [at for at in range(rank) if at != axis]
    if not all(same_size(data[at], indices[at]) or same_size(data[at], updates[at]) for at in others):
        return None
    found = row_index(node, 1, axis)
    if not isinstance(found, str):
        return None if found is None else _Rows(axis, found, w.x[2])
    # Behind a Cast, and one index for all rows before an Expand.
    index = w.Cast(w.Reshape(found, shape=[-1]), to=node.dtype(1) or "int64")
    length = row_count(node, found)
    if not (same_size(length, indices[axis]) or same_size(length, updates[axis])):
        index = w.Expand(index, w.size(w.x[2], axis))
    return _Rows(axis, index, w.x[2])


def _index(w: Writer, rows: _Rows) -> Value | None:
    """The index of each row, with negative ones resolved from the end. None if constant indices all differ."""
    node = w.node
    length = (node.shape(0) or ())[rows.axis]
    if isinstance(rows.index, np.ndarray):
        if length:
            places = rows.index % length
            return None if len(np.unique(places)) == len(places) else w.constant(places)
        if np.all(rows.index >= 0):
            return w.constant(rows.index)
        given = w.constant(rows.index)
    else:
        given = rows.index
    dtype = node.dtype(1) or "int64"
    size = w.Cast(w.size(w.x[0], rows.axis), to=dtype)
    return w.Where(w.Less(given, w.number(0, dtype)), w.Add(given, size), given)

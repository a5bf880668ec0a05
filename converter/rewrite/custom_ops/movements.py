"""Applies the effect of each element-moving operator to a layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.graph.operator_groups import MOVING
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of
from trtsmith.converter.rewrite.custom_ops.layout import (
    ONE,
    Atom,
    Layout,
    Size,
    UnprovedError,
    cut,
    extent,
    joined,
    product,
    shown,
)
from trtsmith.converter.rewrite.custom_ops.shape_values import dims_of, shape_values
from trtsmith.converter.rewrite.custom_ops.surgery import constant_of, domain_of

MOVES = MOVING | {"Cast"}
"""Operators that `follow` knows. Those among them that compute (a Cast to another type) it refuses."""


def follow(node: gs.Node, result: gs.Tensor, layout: Layout) -> Layout:
    """Returns the layout of `result`, an output of a node of MOVES, from the layout of the node's first input."""
    try:
        if domain_of(node):
            raise UnprovedError(f"an operator of domain {node.domain!r}", "an ONNX operator")
        if node.op == "Transpose":
            perm = node.attrs.get("perm") or list(reversed(range(len(layout.axes))))
            return replace(layout, axes=tuple(layout.axes[axis] for axis in perm))
        if node.op == "Split":
            return _split(node, result, layout)
        if node.op == "Slice":
            return _slice(node, layout)
        if node.op == "Gather":
            return _gather(node, layout)
        if node.op == "Cast" and (
            dtype_of(node.inputs[0]) is None or dtype_of(node.inputs[0]) != dtype_of(result)
        ):
            raise UnprovedError(
                f"{node.inputs[0].name!r} is cast to {dtype_of(result)}", "one type from end to end"
            )
        if node.op in ("Cast", "Identity"):
            return layout
        sizes = _sizes_after(node, result, layout)
        if node.op == "Expand" and sizes != layout.sizes():
            raise UnprovedError(f"{node.inputs[0].name!r} is repeated", "elements that are only moved")
        return replace(layout, axes=cut(tuple(atom for atoms in layout.axes for atom in atoms), sizes))
    except UnprovedError as error:
        error.node = error.node or node
        raise


def _sizes_after(node: gs.Node, tensor: gs.Tensor, layout: Layout) -> tuple[Size, ...]:
    """The sizes of `tensor`, which holds the elements of the node's input in the same order.

    One size that is not known follows from the others. A symbol that the input has too stands for the same size.
    """
    total, before = product(layout.sizes()), dims_of(node.inputs[0]) or ()
    candidates = [dims for dims in (dims_of(tensor), _target(node, before)) if dims is not None]
    if not candidates or len({len(dims) for dims in candidates}) > 1:
        raise UnprovedError(f"the shape of {tensor.name!r} is not known", "a tensor of known rank")
    symbols = {symbol: Size(1, (symbol,)) for symbol in total.symbols}
    symbols |= {dim: size for dim, size in zip(before, layout.sizes(), strict=False) if isinstance(dim, str)}
    options = [[dims[axis] for dims in candidates] for axis in range(len(candidates[0]))]
    known = {a: Size(dim) for a, dims in enumerate(options) for dim in dims if isinstance(dim, int)}
    if len(known) < len(options) - 1:
        found = {a: symbols[dim] for a, dims in enumerate(options) for dim in dims if dim in symbols}
        known = found | known
    # A size of 0 would make every other one possible.
    rest = total.over(product(list(known.values()))) if Size(0) not in known.values() else None
    unknown = [axis for axis in range(len(options)) if axis not in known]
    if rest is None or len(unknown) > 1 or (not unknown and rest != ONE):
        raise UnprovedError(
            f"the shape {shown(candidates[0])} of {tensor.name!r} cannot be proved from {total} elements",
            "static sizes, all but the batch",
        )
    return tuple(known.get(axis, rest) for axis in range(len(options)))


def _target(node: gs.Node, before: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The target shape of a Reshape, with None for a size that follows from the others; None if unknown."""
    values = shape_values(node.inputs[1]) if node.op == "Reshape" else None
    if values is None or (node.attrs.get("allowzero", 0) and 0 in values):
        return None
    kept = [before[axis] if value == 0 and axis < len(before) else value for axis, value in enumerate(values)]
    return tuple(None if value == -1 else value for value in kept)


def _axis(node: gs.Node, layout: Layout, default: int = 0) -> int:
    return int(node.attrs.get("axis", default)) % max(len(layout.axes), 1)


def _number(size: Size, what: str) -> int:
    if size.symbols:
        raise UnprovedError(f"{what} is {size}", "a static size")
    return size.number


def _narrow(layout: Layout, axis: int, start: int, length: int) -> Layout:
    """Cuts `length` positions of an axis, from `start`."""
    atoms = list(layout.axes[axis])
    total = _number(extent(layout.axes[axis]), f"axis {axis}")
    if not 0 <= start <= start + length <= total or not length:
        raise UnprovedError(
            f"positions {start} to {start + length} of {total}", "a part of the axis that is not empty"
        )
    offsets = dict(layout.offsets)
    kept: list[Atom] = []
    while atoms:
        atom = atoms.pop(0)
        inner = math.prod(a.size.number for a in atoms)
        first, last = start // inner, (start + length - 1) // inner
        aligned = start % inner == 0 and length % inner == 0
        if not aligned and first != last:
            raise UnprovedError(
                f"positions {start} to {start + length} of {total}", "whole blocks of the axis"
            )
        if first:
            offsets[atom.axis] = offsets.get(atom.axis, 0) + first * _number(atom.stride, "a stride")
        kept.append(replace(atom, size=Size(last - first + 1)))
        start -= first * inner
        if aligned:
            kept += atoms
            break
    axes = list(layout.axes)
    axes[axis] = joined(kept)
    return Layout(tuple(axes), offsets)


def _split(node: gs.Node, result: gs.Tensor, layout: Layout) -> Layout:
    axis = _axis(node, layout)
    index = next(i for i, output in enumerate(node.outputs) if output is result)
    lengths = []
    for output in node.outputs[: index + 1]:
        dims = dims_of(output)
        length = dims[axis] if dims is not None else None
        if not isinstance(length, int):
            raise UnprovedError(
                f"the length of {output.name!r} along axis {axis} is not known", "static lengths"
            )
        lengths.append(length)
    return _narrow(layout, axis, sum(lengths[:-1]), lengths[-1])


def _slice(node: gs.Node, layout: Layout) -> Layout:
    values = [constant_of(tensor) for tensor in node.inputs[1:] if not tensor.is_empty()]
    if len(values) < 2 or len(values) != len(node.inputs) - 1 or any(value is None for value in values):
        raise UnprovedError("starts, ends, axes or steps are not constants", "constants")
    lists = [np.asarray(value).reshape(-1).tolist() for value in values]
    starts, ends = lists[:2]
    axes = lists[2] if len(lists) > 2 else list(range(len(starts)))
    steps = lists[3] if len(lists) > 3 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= len(layout.axes)
        size = extent(layout.axes[axis])
        if size.symbols and start == 0 and end >= 2**31 - 1 and step == 1:
            continue
        first, last, step = slice(start, end, step).indices(_number(size, f"axis {axis}"))
        if step != 1:
            raise UnprovedError(f"the step along axis {axis} is {step}", "step 1")
        layout = _narrow(layout, axis, first, last - first)
    return layout


def _gather(node: gs.Node, layout: Layout) -> Layout:
    axis = _axis(node, layout)
    constant = constant_of(node.inputs[1])
    if constant is None:
        raise UnprovedError(f"the indices {node.inputs[1].name!r} are not a constant", "constant indices")
    indices = np.asarray(constant).reshape(-1)
    size = extent(layout.axes[axis])
    if indices.size == 0 or ((indices < 0).any() and size.symbols) or constant.ndim > 1:
        raise UnprovedError(f"indices {indices.tolist()}", "one index or a run of them")
    indices = np.where(indices < 0, indices + size.number, indices)
    if (np.diff(indices) != 1).any():
        raise UnprovedError(
            f"indices {indices.tolist()} along axis {axis}", "one index or a run of them in rising order"
        )
    narrowed = _narrow(layout, axis, int(indices[0]), indices.size)
    if constant.ndim:
        return narrowed
    return replace(narrowed, axes=narrowed.axes[:axis] + narrowed.axes[axis + 1 :])

"""Traces moved and repeated tensors back to their source, and rearranges the source into a plugin's order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.layout import (
    ONE,
    Atom,
    Atoms,
    Layout,
    Size,
    UnprovedError,
    extent,
    product,
    shown,
    whole,
)
from trtsmith.converter.rewrite.custom_ops.movements import MOVES, follow
from trtsmith.converter.rewrite.custom_ops.shape_values import dims_of
from trtsmith.converter.rewrite.custom_ops.surgery import domain_of
from trtsmith.converter.rewrite.custom_ops.traces import MAX_STEPS, producer

ROLES = ("batch", "queries", "heads", "levels", "points", "coordinates")
"""The axes of sampling locations, in their order; weights have all but the last."""

REPEATED = "repeated"
"""Begins the label of an axis along which the elements of a smaller tensor are repeated."""


@dataclass(frozen=True)
class Moved:
    """A tensor `end`, and the nodes from `origin` down to it, each with its output.

    Elements are only moved, or repeated along axes: by an Expand, or by an operator on two tensors of which one is smaller.
    """

    origin: gs.Tensor
    end: gs.Tensor
    steps: tuple[tuple[gs.Node, gs.Tensor], ...]

    def layout(self) -> Layout:
        """Returns the end's axes in elements of the origin. Raises UnprovedError if a move cannot be followed."""
        layout = whole(self.origin)
        for node, result in self.steps:
            repeats = node.op not in MOVES or node.op == "Expand"
            layout = _repeated(node, result, layout) if repeats else follow(node, result, layout)
        return layout

    def axes(self) -> dict[str, Atoms]:
        """Returns, by role, the origin's elements along each axis of the end, without repetitions.

        UnprovedError where an axis is part own and part repeated, but for a batch whose entries are repeated one by one and
        points that are repeated in turn.
        """
        found = {}
        for role, atoms in zip(ROLES, self.layout().axes, strict=False):
            own = tuple(atom for atom in atoms if not str(atom.axis).startswith(REPEATED))
            part = {"batch": atoms[: len(own)], "points": atoms[len(atoms) - len(own) :]}.get(role, atoms)
            if own and own != part:
                raise UnprovedError(
                    f"the {role} of {self.end.name!r} repeat parts of {self.origin.name!r}",
                    "whole axes that repeat",
                )
            found[role] = own
        return found

    def repeats(self) -> dict[str, Size]:
        """Returns, by role, the number of repetitions along each axis of the end."""
        return {
            role: extent(tuple(atom for atom in atoms if str(atom.axis).startswith(REPEATED)))
            for role, atoms in zip(ROLES, self.layout().axes, strict=False)
        }

    def after(self, more: Moved) -> Moved:
        """Returns the chain from this origin down to the end of `more`, which begins at this end."""
        assert more.origin is self.end
        return Moved(self.origin, more.end, (*self.steps, *more.steps))


def climb_moved(end: gs.Tensor) -> Moved:
    """Follows a tensor up through nodes that only move or expand elements."""
    steps: list[tuple[gs.Node, gs.Tensor]] = []
    tensor = end
    while len(steps) < MAX_STEPS:
        node = producer(tensor)
        if node is None or domain_of(node) or node.op not in MOVES:
            break
        steps.insert(0, (node, tensor))
        tensor = node.inputs[0]
    return Moved(tensor, end, tuple(steps))


def through(node: gs.Node, operand: gs.Tensor) -> Moved:
    """Returns the step from an operand of a binary operator to its result, over which it may broadcast."""
    return Moved(operand, node.outputs[0], ((node, node.outputs[0]),))


def _repeated(node: gs.Node, result: gs.Tensor, layout: Layout) -> Layout:
    dims = dims_of(result)
    if dims is None or len(dims) < len(layout.axes):
        raise UnprovedError(f"the shape of {result.name!r} is not known", "a tensor of known rank", node)
    axes: list[Atoms] = [()] * (len(dims) - len(layout.axes)) + list(layout.axes)
    for axis, (atoms, dim) in enumerate(zip(axes, dims, strict=True)):
        if extent(atoms) == ONE and dim != 1:
            size = Size(dim) if isinstance(dim, int) else Size(1, (dim or f"{result.name}[{axis}]",))
            axes[axis] = (Atom(f"{REPEATED} {result.name} {axis}", size),)
    return replace(layout, axes=tuple(axes))


@dataclass(frozen=True)
class Arranged:
    """A tensor of the graph, and the steps that bring it into order: Reshape, Transpose, Reshape; None for each that is not
    needed.
    """

    origin: gs.Tensor
    split: tuple[int, ...] | None
    perm: tuple[int, ...] | None
    shape: tuple[int, ...] | None

    def nodes(self, name: str) -> tuple[gs.Tensor, list[gs.Node]]:
        """Returns the tensor in order, and the nodes that compute it."""
        made: list[gs.Node] = []
        current = self.origin
        for number, shape in enumerate((self.split, None, self.shape)):
            if number == 1 and self.perm is not None:
                moved = gs.Variable(f"{name}_ordered", dtype=self.origin.dtype)
                attrs = {"perm": list(self.perm)}
                made.append(gs.Node("Transpose", f"{name}/Transpose", attrs, [current], [moved]))
                current = moved
            if shape is not None:
                sizes = gs.Constant(f"{name}_sizes_{number}", np.array(shape, np.int64))
                cut = gs.Variable(f"{name}_shaped_{number}", dtype=self.origin.dtype)
                made.append(gs.Node("Reshape", f"{name}/Reshape_{number}", {}, [current, sizes], [cut]))
                current = cut
        return current, made


def arrange(origin: gs.Tensor, roles: Sequence[tuple[str, Atoms]]) -> Arranged:
    """Finds steps that give the origin one axis per role. Raises UnprovedError unless the roles use each element exactly
    once.

    roles: name, and atoms of the origin, outermost first; none for an axis of size 1.
    """
    dims = whole(origin).sizes()
    used = [atom for _, atoms in roles for atom in atoms]
    memory: list[Atom] = []
    for axis, size in enumerate(dims):
        mine = sorted((a for a in used if a.axis == axis), key=lambda atom: -_stride(atom))
        place = ONE
        for atom in reversed(mine):
            place = place * atom.size if atom.stride == place else Size(0)
        if place != size:
            raise UnprovedError(
                f"axis {axis} of {origin.name!r} has {size} elements, which are not used once each",
                "all, once",
            )
        memory += mine
    if len(memory) < len(used):
        raise UnprovedError(f"{origin.name!r} is not all that is read", "one tensor")
    perm = tuple(memory.index(atom) for atom in used)
    ordered = perm == tuple(range(len(used)))
    sizes = [product([atom.size for atom in atoms]) for _, atoms in roles]
    split = (
        None
        if ordered or tuple(a.size for a in memory) == dims
        else _target(origin, [a.size for a in memory])
    )
    current = dims if ordered else tuple(atom.size for atom in used)
    shape = None if tuple(sizes) == current else _target(origin, sizes)
    return Arranged(origin, split, None if ordered else perm, shape)


def _stride(atom: Atom) -> float:
    """A sort key for strides along one axis: they differ by factors, and symbolic ones are outermost."""
    return math.inf if atom.stride.symbols else atom.stride.number


def _target(origin: gs.Tensor, sizes: Sequence[Size]) -> tuple[int, ...]:
    """The target shape of a Reshape, with at most one size left to follow from the others."""
    target = tuple(-1 if size.symbols else size.number for size in sizes)
    if target.count(-1) > 1:
        raise UnprovedError(
            f"{origin.name!r} has sizes {shown(sizes)}", "one axis of unknown size, the batch"
        )
    return target

"""Traces chains of moves from a pattern back to their source, and rearranges tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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
    shown,
    whole,
)
from trtsmith.converter.rewrite.custom_ops.movements import MOVES, follow
from trtsmith.converter.rewrite.custom_ops.surgery import constant_of, domain_of

MAX_STEPS = 64
"""Nodes of one chain. Exporters write about five; the bound keeps a pass linear in the graph."""

_AFFINE = frozenset({"Add", "Div", "Mul", "Sub"})


@dataclass(frozen=True)
class MovementStep:
    """One node of a chain: `result` is `source`, moved, scaled by `scale` and shifted by `shift`."""

    node: gs.Node
    source: gs.Tensor
    result: gs.Tensor
    scale: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)

    def layout(self, before: Layout) -> Layout:
        return before if self.node.op in _AFFINE else follow(self.node, self.result, before)


def producer(tensor: gs.Tensor) -> gs.Node | None:
    """Returns the node that makes the tensor; None for inputs and initializers."""
    return tensor.inputs[0] if len(tensor.inputs) == 1 else None


def climb(tensor: gs.Tensor, affine: bool = False) -> tuple[MovementStep, ...]:
    """Returns the steps above `tensor`, last one first, through nodes that only move elements.

    affine: go through additions of and multiplications by one number too.
    """
    steps: list[MovementStep] = []
    while len(steps) < MAX_STEPS:
        node = producer(tensor)
        if node is None or domain_of(node):
            break
        if node.op in MOVES:
            step = MovementStep(node, node.inputs[0], tensor)
        elif affine and node.op in _AFFINE and (found := _affine_step(node, tensor)) is not None:
            step = found
        else:
            break
        steps.append(step)
        tensor = step.source
    return tuple(steps)


def _affine_step(node: gs.Node, result: gs.Tensor) -> MovementStep | None:
    """The node as `scale * source + shift`; None if it has another form."""
    for source, other in (node.inputs, list(reversed(node.inputs))):
        number = constant_of(other)
        rank = len(source.shape) if source.shape is not None else None
        if number is None or number.size != 1 or rank is None or number.ndim > rank:
            continue
        value = float(number.reshape(-1)[0])
        if not np.isfinite(value):
            return None
        c, one, swapped = Fraction(value), Fraction(1), source is not node.inputs[0]
        if node.op == "Add":
            return MovementStep(node, source, result, one, c)
        if node.op == "Mul":
            return MovementStep(node, source, result, c)
        if node.op == "Sub":
            return (
                MovementStep(node, source, result, -one, c)
                if swapped
                else MovementStep(node, source, result, one, -c)
            )
        return None if swapped or not c else MovementStep(node, source, result, 1 / c)
    return None


def run(steps: Sequence[MovementStep], layout: Layout) -> Layout:
    """Returns the layout after the steps, which are listed last one first."""
    for step in reversed(steps):
        layout = step.layout(layout)
    return layout


@dataclass(frozen=True)
class Origin:
    """A common source of several chains.

    layouts: of each chain's end, in elements of `tensor`. Each end is `scale * element + shift`, which is None if the
    chains differ in it.
    """

    tensor: gs.Tensor
    layouts: tuple[Layout, ...]
    affine: tuple[Fraction, Fraction] | None


def origins(ends: Sequence[gs.Tensor], affine: bool = False) -> Iterator[Origin | UnprovedError]:
    """Finds every common source of `ends`, nearest first; an UnprovedError replaces one that cannot be followed."""
    chains = [climb(end, affine) for end in ends]
    stops = [[end, *(step.source for step in chain)] for end, chain in zip(ends, chains, strict=True)]
    places = [{id(tensor): index for index, tensor in enumerate(tensors)} for tensors in stops]
    found = False
    for tensor in stops[0]:
        if not all(id(tensor) in place for place in places):
            continue
        found = True
        parts = [chain[: place[id(tensor)]] for chain, place in zip(chains, places, strict=True)]
        maps = {_affine_map(part) for part in parts}
        try:
            layouts = tuple(run(part, whole(tensor)) for part in parts)
        except UnprovedError as error:
            yield error
        else:
            yield Origin(tensor, layouts, maps.pop() if len(maps) == 1 else None)
    if not found:
        top = stops[0][-1]
        names = sorted({tensors[-1].name for tensors in stops})
        yield UnprovedError(
            f"the levels come from {', '.join(map(repr, names))}", "parts of one tensor", producer(top)
        )


def _affine_map(steps: Sequence[MovementStep]) -> tuple[Fraction, Fraction]:
    scale, shift = Fraction(1), Fraction(0)
    for step in steps:
        scale, shift = scale * step.scale, shift + scale * step.shift
    return scale, shift


Roles = tuple[tuple[str, Atoms], ...]
"""The axes that a plugin input has, in order: name, and the atoms of the origin that it is made of."""


@dataclass(frozen=True)
class Order:
    """Steps that bring an origin into the order of its roles: Reshape to `shape`, then Transpose. None: not needed."""

    shape: tuple[int, ...] | None
    perm: tuple[int, ...] | None


def order(origin: gs.Tensor, roles: Roles) -> Order:
    """Returns the permutation from the origin to the roles. Raises UnprovedError unless it is a bijection."""
    dims = whole(origin).sizes()
    atoms: dict[str, Atom] = {}
    for name, parts in roles:
        if len(parts) > 1:
            raise UnprovedError(
                f"{name} is made of parts {shown([part.size for part in parts])} of {origin.name!r}",
                "one part",
            )
        if parts:
            atoms[name] = parts[0]
    memory = [_in_memory(origin, axis, size, atoms) for axis, size in enumerate(dims)]
    sizes = {name: extent(parts) for name, parts in roles}
    target = list(sizes)
    flat = [name for names in memory for name in names]
    ordered = flat == [name for name in target if name in atoms]
    listed = target if ordered else flat + [name for name in target if name not in atoms]
    perm = None if ordered else tuple(listed.index(name) for name in target)
    if tuple(sizes[name] for name in listed) == dims:
        return Order(None, perm)
    shape = []
    for index, name in enumerate(listed):
        size = sizes[name]
        kept = size.symbols and index < len(dims) and memory[index] == [name]
        shape.append(0 if kept else -1 if size.symbols else size.number)
    if shape.count(-1) > 1:
        raise UnprovedError(f"{origin.name!r} has sizes {shown(dims)}", "one axis of unknown size, the batch")
    return Order(tuple(shape), perm)


def _in_memory(origin: gs.Tensor, axis: int, size: Size, atoms: Mapping[str, Atom]) -> list[str]:
    """The roles that lie along an axis, from the outermost; UnprovedError if they are not all of it."""
    names: list[str] = []
    place = ONE
    left = [name for name, atom in atoms.items() if atom.axis == axis]
    while left:
        inner = next((name for name in left if atoms[name].stride == place), None)
        if inner is None:
            break
        left.remove(inner)
        names.insert(0, inner)
        place = place * atoms[inner].size
    if left or place != size:
        raise UnprovedError(
            f"axis {axis} of {origin.name!r} has {size} elements, of which {place} are used", "all, once"
        )
    return names


def place(origin: gs.Tensor, how: Order, name: str) -> tuple[gs.Tensor, list[gs.Node]]:
    """Returns the origin in order, and the nodes that compute it."""
    nodes: list[gs.Node] = []
    current = origin
    if how.shape is not None:
        shape = gs.Constant(f"{name}_shape", np.array(how.shape, np.int64))
        split = gs.Variable(f"{name}_split", dtype=origin.dtype)
        nodes.append(gs.Node("Reshape", f"{name}/Reshape", {}, [current, shape], [split]))
        current = split
    if how.perm is not None:
        moved = gs.Variable(f"{name}_ordered", dtype=origin.dtype)
        nodes.append(gs.Node("Transpose", f"{name}/Transpose", {"perm": list(how.perm)}, [current], [moved]))
        current = moved
    return current, nodes

"""Maps the elements of a tensor to those of its source, to prove the effect of a chain of moves.

A layout says, for each axis of a tensor, which atoms it is made of, outermost first. An atom is a run of `size`
positions, `stride` apart, along one labelled axis of the tensor where the chain began. Reshape splits and joins atoms,
Transpose permutes axes, Slice shortens an atom and shifts the origin. Two chains that move elements in the same way
have equal layouts, whatever nodes compute them, and the work does not depend on how large the tensors are. Sizes may
hold symbols, such as a batch, so that what is proved holds for every value of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.shape_values import dims_of


class UnprovedError(Exception):
    """A step of a proof that fails: the reason, the expected form, and the node (None: the caller knows it)."""

    def __init__(self, reason: str, expected: str, node: gs.Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expected = expected
        self.node = node


@dataclass(frozen=True)
class Size:
    """A number of elements: `number` times the product of `symbols`, which are sorted."""

    number: int
    symbols: tuple[str, ...] = ()

    def __mul__(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted(self.symbols + other.symbols)))

    def over(self, other: Size) -> Size | None:
        """Returns the quotient; None unless it is whole for every value of the symbols."""
        mine, theirs = Counter(self.symbols), Counter(other.symbols)
        if self.number % other.number or theirs - mine:
            return None
        return Size(self.number // other.number, tuple(sorted((mine - theirs).elements())))

    def __str__(self) -> str:
        factors = [str(self.number)] if self.number != 1 or not self.symbols else []
        return "*".join((*factors, *self.symbols))


ONE = Size(1)


def product(sizes: Sequence[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total


@dataclass(frozen=True)
class Atom:
    axis: int | str
    size: Size
    stride: Size = ONE


Atoms = tuple[Atom, ...]


@dataclass(frozen=True)
class Layout:
    """The elements of a tensor by axis: atoms, outermost first, merged where possible and without atoms of size 1.

    offsets: position along an axis of the origin at which the tensor begins, where it is not 0.
    """

    axes: tuple[Atoms, ...]
    offsets: Mapping[int | str, int] = field(default_factory=dict)

    def sizes(self) -> tuple[Size, ...]:
        return tuple(extent(atoms) for atoms in self.axes)


def extent(atoms: Atoms) -> Size:
    return product([atom.size for atom in atoms])


def joined(atoms: Sequence[Atom]) -> Atoms:
    """Joins atoms that continue each other, which describes the same positions in as few as possible."""
    result: list[Atom] = []
    for atom in atoms:
        if atom.size == ONE:
            continue
        if result and result[-1].axis == atom.axis and result[-1].stride == atom.stride * atom.size:
            result[-1] = Atom(atom.axis, result[-1].size * atom.size, atom.stride)
        else:
            result.append(atom)
    return tuple(result)


def cut(atoms: Atoms, sizes: Sequence[Size]) -> tuple[Atoms, ...]:
    """Splits the atoms into groups of the given sizes, from the right. Raises UnprovedError if an atom crosses two
    groups.
    """
    groups: list[Atoms] = []
    left = list(atoms)
    for size in reversed(sizes):
        group: list[Atom] = []
        need = size
        while need != ONE:
            if not left:
                raise UnprovedError(
                    f"{extent(atoms)} elements do not fill {shown(sizes)}", "the same number of elements"
                )
            atom = left.pop()
            rest = need.over(atom.size)
            if rest is None:
                outer = atom.size.over(need)
                if outer is None:
                    raise UnprovedError(
                        f"an axis of {atom.size} is not cut at {need}", "a cut between whole axes"
                    )
                left.append(Atom(atom.axis, outer, atom.stride * need))
                atom, rest = replace(atom, size=need), ONE
            group.insert(0, atom)
            need = rest
        groups.insert(0, joined(group))
    if left:
        raise UnprovedError(
            f"{extent(atoms)} elements do not fit {shown(sizes)}", "the same number of elements"
        )
    return tuple(groups)


def shown(sizes: Sequence[object]) -> str:
    return "[" + ", ".join(str(size) for size in sizes) + "]"


def whole(tensor: gs.Tensor, labels: Sequence[str] | None = None) -> Layout:
    """Returns the layout of a tensor at the start of a chain: itself. Axes are labelled by number, or by `labels`."""
    dims = dims_of(tensor)
    if dims is None:
        raise UnprovedError(f"the shape of {tensor.name!r} is not known", "a tensor of known rank")
    axes = []
    for axis, dim in enumerate(dims):
        if isinstance(dim, int) and dim < 1:
            raise UnprovedError(f"{tensor.name!r} has shape {shown(dims)}", "a tensor that is not empty")
        size = Size(dim) if isinstance(dim, int) else Size(1, (dim or f"{tensor.name}[{axis}]",))
        axes.append(joined([Atom(labels[axis] if labels else axis, size)]))
    return Layout(tuple(axes))

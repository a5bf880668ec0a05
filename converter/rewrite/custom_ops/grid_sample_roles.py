"""Identifies the plugin's axes of a tensor (batch, heads, levels and so on) from the layouts at the ends of its chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.layout import (
    ONE,
    Atom,
    Atoms,
    Layout,
    Size,
    UnprovedError,
    cut,
    extent,
    joined,
    shown,
)
from trtsmith.converter.rewrite.custom_ops.surgery import domain_of
from trtsmith.converter.rewrite.custom_ops.traces import MovementStep, Origin, Roles, climb, producer


@dataclass(frozen=True)
class Chain:
    """The computing operators of an attention, and the moves between them (each last one first).

    samples, stacking: the GridSample of each level, and the steps from it to `concat` (None for a single level).
    weighing:  steps from there to `mul`, whose other input is `weights`.
    summing:   steps from `mul` to `reduce`.
    """

    samples: tuple[gs.Node, ...]
    stacking: tuple[tuple[MovementStep, ...], ...]
    concat: gs.Node | None
    weighing: tuple[MovementStep, ...]
    mul: gs.Node
    weights: gs.Tensor
    summing: tuple[MovementStep, ...]
    reduce: gs.Node

    def nodes(self) -> list[gs.Node]:
        """Returns the chain's nodes, from the sum upwards."""
        weighing = [step.node for step in self.weighing]
        stacking = [step.node for steps in self.stacking for step in steps]
        concat = [self.concat] if self.concat is not None else []
        summing = [step.node for step in self.summing]
        return [self.reduce, *summing, self.mul, *weighing, *concat, *stacking, *self.samples]


def find_chain(reduce: gs.Node) -> Chain | None:
    """Returns the chain that ends in a ReduceSum; None if there is none. Raises UnprovedError if other values are stacked
    with it.
    """
    summing = climb(reduce.inputs[0])
    mul = producer(_top(reduce.inputs[0], summing))
    if mul is None or mul.op != "Mul" or domain_of(mul):
        return None
    for sampled, weights in (mul.inputs, list(reversed(mul.inputs))):
        weighing = climb(sampled)
        stacked = producer(_top(sampled, weighing))
        if stacked is None or stacked.op not in ("Concat", "GridSample") or domain_of(stacked):
            continue
        concat = stacked if stacked.op == "Concat" else None
        ends = list(stacked.inputs) if concat is not None else [stacked.outputs[0]]
        stacking = tuple(climb(tensor) for tensor in ends)
        tops = [producer(_top(tensor, steps)) for tensor, steps in zip(ends, stacking, strict=True)]
        samples = tuple(node for node in tops if is_grid_sample(node))
        if not samples:
            continue
        if len(samples) != len(tops):
            other = next(t for t, node in zip(ends, tops, strict=True) if not is_grid_sample(node))
            raise UnprovedError(
                f"input {other.name!r} is not a sampled level", "one GridSample for each input", concat
            )
        return Chain(samples, stacking, concat, weighing, mul, weights, summing, reduce)
    return None


def is_grid_sample(node: gs.Node | None) -> TypeGuard[gs.Node]:
    return node is not None and node.op == "GridSample" and not domain_of(node)


def _top(tensor: gs.Tensor, steps: Sequence[MovementStep]) -> gs.Tensor:
    return steps[-1].source if steps else tensor


def _images_and_heads(atoms: Atoms, heads: Size) -> tuple[Atoms, ...]:
    """Splits the axis N*M. GridSample guarantees that value and grids have the same N, whatever its symbol."""
    images = extent(atoms).over(heads)
    if images is None:
        raise UnprovedError(f"an axis of {extent(atoms)} is not a batch of {heads} heads", f"N*{heads}")
    return cut(atoms, (images, heads))


def location_roles(origin: Origin, heads: Size) -> Roles:
    first = origin.layouts[0]
    if any(layout.axes != first.axes for layout in origin.layouts):
        raise UnprovedError(
            "the grids of the levels are cut and moved in different ways", "the same for all levels"
        )
    batch, queries, points, xy = first.axes
    images, by_head = _images_and_heads(batch, heads)
    return (
        ("batch", images),
        ("queries", queries),
        ("heads", by_head),
        ("levels", _level_atoms(origin)),
        ("points", points),
        ("x and y", xy),
    )


def _level_atoms(origin: Origin) -> Atoms:
    """The axis along which the levels follow each other, in the stacking order of their samples."""
    moved = {axis for layout in origin.layouts for axis in layout.offsets}
    if len(origin.layouts) == 1 and not moved:
        return ()
    axis = min(moved, key=str, default=0)
    starts = [layout.offsets.get(axis, 0) for layout in origin.layouts]
    if len(moved) != 1 or not starts[-1] or starts != [level * starts[1] for level in range(len(starts))]:
        raise UnprovedError(
            f"the grids of the levels, as they are stacked, begin at {shown(starts)} "
            f"of axis {axis} of {origin.tensor.name!r}",
            "one level after the other, along one axis",
        )
    return (Atom(axis, Size(len(starts)), Size(starts[1])),)


@dataclass(frozen=True)
class Levels:
    """The shapes and starts of the levels in value. stride: of one cell along `axis` of the origin."""

    axis: int | str
    stride: Size
    shapes: tuple[tuple[int, int], ...]
    starts: tuple[int, ...]


def levels_of(origin: Origin) -> Levels:
    """Finds the levels in value. Raises UnprovedError unless they are stored row by row, side by side, in any order."""
    shapes = []
    runs: set[tuple[int | str, Size]] = set()
    for layout in origin.layouts:
        _, _, height, width = layout.sizes()
        if height.symbols or width.symbols:
            raise UnprovedError(f"a level has size {height} x {width}", "static heights and widths")
        shapes.append((height.number, width.number))
        cells = joined((*layout.axes[2], *layout.axes[3]))
        if len(cells) > 1:
            raise UnprovedError(
                f"a level of {height} x {width} is not stored row by row", "rows one after the other"
            )
        runs |= {(cell.axis, cell.stride) for cell in cells}
    moved = {axis for layout in origin.layouts for axis in layout.offsets}
    axis, stride = next(iter(runs), (min(moved, key=str, default=0), ONE))
    if len(runs) > 1 or moved - {axis} or stride.symbols:
        raise UnprovedError("the levels of value lie along different axes", "one axis with all levels")
    starts = [layout.offsets.get(axis, 0) for layout in origin.layouts]
    used = 0
    for start, (rows, columns) in sorted(zip(starts, shapes, strict=True)):
        if start != used * stride.number:
            raise UnprovedError(
                f"a level of {rows} x {columns} begins at {start // stride.number} of {origin.tensor.name!r}, "
                f"after levels with {used} cells",
                "levels without gap or overlap",
            )
        used += rows * columns
    return Levels(axis, stride, tuple(shapes), tuple(start // stride.number for start in starts))


def value_roles(origin: Origin, heads: Size) -> Roles:
    batch, channels = origin.layouts[0].axes[:2]
    if any(layout.axes[:2] != (batch, channels) for layout in origin.layouts):
        raise UnprovedError(
            "the levels of value are cut and moved in different ways", "the same for all levels"
        )
    images, by_head = _images_and_heads(batch, heads)
    levels = levels_of(origin)
    total = Size(sum(height * width for height, width in levels.shapes))
    cells = joined([Atom(levels.axis, total, levels.stride)])
    return (("batch", images), ("cells", cells), ("heads", by_head), ("channels", channels))


def weight_roles(origin: Origin, sampled: Layout, sizes: Mapping[str, Size]) -> Roles:
    """Returns the roles of the weights' axes, from the samples that they multiply."""
    weights = origin.layouts[0]
    if weights.offsets:
        raise UnprovedError(f"only a part of {origin.tensor.name!r} is used", "all of the attention weights")
    missing = len(sampled.axes) - len(weights.axes)
    if missing < 0:
        raise UnprovedError(
            f"the weights have sizes {shown(weights.sizes())}", f"sizes that fit {shown(sampled.sizes())}"
        )
    found: dict[str, Atoms] = {}
    for samples, atoms in zip(sampled.axes, ((),) * missing + weights.axes, strict=True):
        roles = [role for atom in samples for role in _roles_of(atom, sizes)]
        if "D" in roles:
            if roles != ["D"] or atoms:
                raise UnprovedError(
                    f"an axis of {extent(atoms)} weights meets the channels", "weights alike for all channels"
                )
            continue
        wanted = [sizes[role] for role in roles]
        images = extent(atoms).over(sizes["M"])
        if roles == ["N", "M"] and images is not None:
            # With two heads or more, the axis is not repeated to fit, so its N is that of the samples.
            wanted[0] = images
        try:
            parts = cut(atoms, wanted)
        except UnprovedError as error:
            fault = f"an axis of {extent(atoms)} weights meets samples of {shown([sizes[role] for role in roles])}"
            raise UnprovedError(fault, "one weight for each sample, in one order") from error
        found |= dict(zip(roles, parts, strict=True))
    names = {"N": "batch", "Q": "queries", "M": "heads", "L": "levels", "P": "points"}
    return tuple((name, found.get(role, ())) for role, name in names.items())


def _roles_of(atom: Atom, sizes: Mapping[str, Size]) -> list[str]:
    """The roles of one run of samples; B, the batch of the GridSamples, has two."""
    images, heads = sizes["N"], sizes["M"]
    runs = {
        Atom("B", images * heads): [role for role in "NM" if sizes[role] != ONE],
        Atom("B", heads): ["M"],
        Atom("B", images, heads): ["N"],
    }
    runs = {Atom(role, sizes[role]): [role] for role in "DQLP"} | runs
    if atom not in runs:
        raise UnprovedError(f"axis {atom.axis} of the samples is cut at {atom.size}", "whole axes")
    return runs[atom]

"""Proves that a chain of GridSamples is multi-scale deformable attention, and finds the plugin's inputs in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of
from trtsmith.converter.rewrite.custom_ops.grid_sample_roles import (
    Chain,
    levels_of,
    location_roles,
    value_roles,
    weight_roles,
)
from trtsmith.converter.rewrite.custom_ops.layout import (
    Atom,
    Atoms,
    Layout,
    Size,
    UnprovedError,
    extent,
    joined,
    shown,
)
from trtsmith.converter.rewrite.custom_ops.movements import MOVES, follow
from trtsmith.converter.rewrite.custom_ops.surgery import constant_of
from trtsmith.converter.rewrite.custom_ops.traces import Order, Origin, Roles, order, origins, run
from trtsmith.importers.opdef import TYPE_VARIABLES

_TWICE_LESS_ONE = (Fraction(2), Fraction(-1))
_UNCHANGED = (Fraction(1), Fraction(0))
_MODES = {"mode": ("bilinear", "linear"), "padding_mode": ("zeros",), "align_corners": (0,)}
_DEFAULTS = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": 0}


@dataclass(frozen=True)
class Source:
    """The tensor behind a plugin input, and the steps into the plugin's order."""

    origin: Origin
    order: Order


@dataclass(frozen=True)
class Match:
    """The inputs and the output of the plugin in the graph.

    shapes, starts: (height, width) of each level, and where it begins in value.
    outgoing:       nodes from the sum to `output`, which is [N, Lq, M*D].
    """

    value: Source
    locations: Source
    weights: Source
    shapes: tuple[tuple[int, int], ...]
    starts: tuple[int, ...]
    outgoing: tuple[gs.Node, ...]
    output: gs.Tensor


@contextmanager
def _at(node: gs.Node) -> Iterator[None]:
    """Attributes faults inside the block to the node, unless they name another."""
    try:
        yield
    except UnprovedError as error:
        error.node = error.node or node
        raise


def prove(chain: Chain, kept: set[int]) -> Match:
    """Returns the chain's inputs and output in the plugin's terms. Raises UnprovedError unless it is proved to be the
    attention.

    kept: ids of tensors that are outputs of the graph.
    """
    for node in chain.samples:
        _check_sample(node)
    first = chain.samples[0]
    with _at(first):
        grids = _twice_less_one(list(origins([node.inputs[1] for node in chain.samples], affine=True)))
        batch, queries, points, _ = grids[0].layouts[0].sizes()
        if any(layout.axes != grids[0].layouts[0].axes for layout in grids[0].layouts):
            each = ", ".join(shown(layout.sizes()) for layout in grids[0].layouts)
            raise UnprovedError(
                f"the grids of the levels have sizes {each}", "the same points of each level, in one order"
            )
        values = list(origins([node.inputs[0] for node in chain.samples]))
        known = [value for value in values if isinstance(value, Origin)]
        if not known:
            raise next(fault for fault in values if isinstance(fault, UnprovedError))
        channels = extent(known[0].layouts[0].axes[1])
    with _at(chain.concat or chain.mul):
        sampled = _stacked(chain, {"B": batch, "D": channels, "Q": queries, "P": points})
    with _at(chain.mul):
        summed = run(chain.summing, sampled)
    with _at(chain.reduce):
        summed = _reduced(
            chain.reduce, summed, joined([Atom("L", Size(len(chain.samples))), Atom("P", points)])
        )
        output, heads, outgoing = _output(chain.reduce.outputs[0], summed, batch, queries, channels, kept)
    split = batch.over(heads)
    assert split is not None  # _output cut the batch so
    sizes = {"N": split, "M": heads, "Q": queries, "L": Size(len(chain.samples)), "P": points, "D": channels}
    with _at(first):
        value = _best(values, lambda origin: value_roles(origin, heads))
        locations = _best(grids, lambda origin: location_roles(origin, heads))
    with _at(chain.mul):
        weights = _best(list(origins([chain.weights])), lambda origin: weight_roles(origin, sampled, sizes))
    sources = {"value": value, "sampling_locations": locations, "attention_weights": weights}
    dtypes = {name: str(dtype_of(source.origin.tensor)) for name, source in sources.items()}
    # Without float64, TensorRT takes such locations as float32 in any case.
    taken = dtypes | ({"sampling_locations": "float32"} if dtypes["sampling_locations"] == "float64" else {})
    if len(set(taken.values())) > 1 or dtypes["value"] not in TYPE_VARIABLES["T"]:
        types = ", ".join(f"{name} is {dtype}" for name, dtype in dtypes.items())
        raise UnprovedError(types, f"one type, of {', '.join(TYPE_VARIABLES['T'])}", first)
    levels = levels_of(value.origin)
    return Match(value, locations, weights, levels.shapes, levels.starts, outgoing, output)


def _check_sample(node: gs.Node) -> None:
    for name, allowed in _MODES.items():
        value = node.attrs.get(name, _DEFAULTS[name])
        if value not in allowed:
            raise UnprovedError(f"{name} is {value!r}", " or ".join(map(repr, allowed)), node)
    for tensor, what in zip(node.inputs, ("[N*M, D, H, W]", "[N*M, Lq, P, 2]"), strict=True):
        if tensor.shape is None or len(tensor.shape) != 4:
            raise UnprovedError(f"{tensor.name!r} has shape {tensor.shape}", what, node)


def _twice_less_one(found: Sequence[Origin | UnprovedError]) -> list[Origin]:
    """The origins for which the grids are `2 * origin - 1`. Raises UnprovedError if there are none."""
    matching = [origin for origin in found if isinstance(origin, Origin) and origin.affine == _TWICE_LESS_ONE]
    if matching:
        return matching
    fault = next((error for error in found if isinstance(error, UnprovedError)), None)
    origin = next((origin for origin in reversed(found) if isinstance(origin, Origin)), None)
    if origin is None or (fault is not None and origin.affine == _UNCHANGED):
        assert fault is not None  # `origins` always gives something
        raise fault
    if origin.affine is None:
        raise UnprovedError(
            f"each level's grid is made in another way of {origin.tensor.name!r}", "2 * location - 1 for all"
        )
    scale, shift = (f"{float(number):.6g}" for number in origin.affine)
    raise UnprovedError(
        f"the grids are {scale} * {origin.tensor.name!r} + {shift}", "2 * location - 1, alike for all levels"
    )


def _stacked(chain: Chain, sizes: dict[str, Size]) -> Layout:
    """The layout of the input of `mul`, in elements of the samples: B = N*M, D, Q = Lq, L and P."""
    sample = Layout(tuple(joined([Atom(role, sizes[role])]) for role in "BDQP"))
    layouts = [run(steps, sample) for steps in chain.stacking]
    if any(layout != layouts[0] for layout in layouts):
        raise UnprovedError("the levels are stacked in different orders", "the same order of all")
    layout = layouts[0]
    if chain.concat is not None:
        axes = list(layout.axes)
        axis = int(chain.concat.attrs["axis"]) % len(axes)
        axes[axis] = joined([Atom("L", Size(len(layouts))), *axes[axis]])
        layout = replace(layout, axes=tuple(axes))
    return run(chain.weighing, layout)


def _reduced(node: gs.Node, layout: Layout, expected: Atoms) -> Layout:
    """The layout after a ReduceSum over exactly all levels and points."""
    axes = node.attrs.get("axes")
    if axes is None and len(node.inputs) > 1 and not node.inputs[1].is_empty():
        axes = constant_of(node.inputs[1])
    if axes is None:
        raise UnprovedError("the axes of the sum are not a constant", "constant axes")
    rank = len(layout.axes)
    summed = {int(axis) % rank for axis in np.asarray(axes).reshape(-1)}
    gone = {atom for axis in summed for atom in layout.axes[axis]}
    if gone != set(expected):
        over = shown([f"{atom.axis} {atom.size}" for atom in sorted(gone, key=lambda atom: str(atom.axis))])
        raise UnprovedError(
            f"the sum is over {over}", "a sum over all levels (L) and points (P), and nothing else"
        )
    keep = bool(node.attrs.get("keepdims", 1))
    kept = [
        () if axis in summed else atoms
        for axis, atoms in enumerate(layout.axes)
        if keep or axis not in summed
    ]
    return replace(layout, axes=tuple(kept))


def _output(
    tensor: gs.Tensor, layout: Layout, batch: Size, queries: Size, channels: Size, kept: set[int]
) -> tuple[gs.Tensor, Size, tuple[gs.Node, ...]]:
    """The first tensor below the sum that is [N, Lq, M*D], the number of heads M, and the nodes in between."""
    outgoing: list[gs.Node] = []
    while True:
        heads = _heads(layout, batch, queries, channels)
        if heads is not None:
            return tensor, heads, tuple(outgoing)
        users = [node for node in tensor.outputs if node.op != "Shape"]
        if (
            id(tensor) in kept
            or len(users) != 1
            or users[0].op not in MOVES
            or users[0].inputs[0] is not tensor
        ):
            raise UnprovedError(
                f"{tensor.name!r} with sizes {shown(layout.sizes())} is used",
                "[N, Lq, M*D], and nothing before it",
            )
        tensor = users[0].outputs[0]
        layout = follow(users[0], tensor, layout)
        outgoing.append(users[0])


def _heads(layout: Layout, batch: Size, queries: Size, channels: Size) -> Size | None:
    """The number of heads M if the layout is [N, Lq, M*D], else None."""
    if len(layout.axes) != 3:
        return None
    heads = extent(layout.axes[2]).over(channels)
    images = batch.over(heads) if heads is not None and not heads.symbols else None
    if heads is None or images is None:
        return None
    expected = (
        joined([Atom("B", images, heads)]),
        joined([Atom("Q", queries)]),
        joined([Atom("B", heads), Atom("D", channels)]),
    )
    return heads if layout.axes == expected else None


def _best(found: Sequence[Origin | UnprovedError], roles: Callable[[Origin], Roles]) -> Source:
    """The nearest origin that is already in order, else the nearest that can be rearranged."""
    fallback: Source | None = None
    fault: UnprovedError | None = None
    for origin in found:
        try:
            if isinstance(origin, UnprovedError):
                raise origin
            how = order(origin.tensor, roles(origin))
        except UnprovedError as error:
            fault = fault or error
            continue
        if how == Order(None, None):
            return Source(origin, how)
        fallback = fallback or Source(origin, how)
    if fallback is not None:
        return fallback
    assert fault is not None  # `origins` always gives something
    raise fault

"""Moves the softmax and the sampling locations of multi-scale deformable attention into the plugin node.

Exporters write, before the attention itself, a Softmax over the levels and points of each head, and locations as
`reference + offset / (width, height)` or, for boxes, `centre + offset / points * (width, height) / 2`. As nodes of their
own these write and read again tensors as large as the value itself; one plugin computes them where it samples. The pass
proves with layouts that the plugin's inputs are moved as it expects, whatever nodes move them; the scale of the offsets is
compared number by number. What is written in another way stays as it is: the plugin without them takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isclose

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.broadcasts import (
    ROLES,
    Arranged,
    Moved,
    arrange,
    climb_moved,
    through,
)
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of
from trtsmith.converter.rewrite.custom_ops.grid_sample_attention import OP as PLAIN
from trtsmith.converter.rewrite.custom_ops.layout import ONE, Atoms, Size, UnprovedError, extent
from trtsmith.converter.rewrite.custom_ops.shape_values import dims_of
from trtsmith.converter.rewrite.custom_ops.surgery import all_graphs, constant_of, domain_of, opset_of
from trtsmith.converter.rewrite.custom_ops.traces import producer
from trtsmith.converter.rewrite.engine.records import Declined, Record, Rewrite
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Refusal
from trtsmith.importers.registry import OPS

_EXPECTED = "reference + offset / (width, height), or centre + offset / points * (width, height) / 2"


@dataclass(frozen=True)
class Locations:
    """The plugin's inputs: reference points [., Lq, L or 1, G, 2 or 4] and offsets [., Lq, M, L, P, 2].

    shared_by: entries of the batch that have the same offsets.
    """

    reference: Arranged
    offsets: Arranged
    shared_by: Size


@dataclass(frozen=True)
class _Scaled:
    """The summand beside the reference points: `moved` * `number` * the tensors `times` / the tensors `over`."""

    moved: Moved
    number: float = 1.0
    times: tuple[Moved, ...] = ()
    over: tuple[Moved, ...] = field(default=())


def find_locations(locations: gs.Tensor, spatial_shapes: gs.Tensor, points: int) -> Locations:
    """Returns the plugin inputs from which the locations are computed. Raises UnprovedError unless that is proved."""
    below = climb_moved(locations)
    add = producer(below.origin)
    if add is None or add.op != "Add" or domain_of(add):
        raise UnprovedError(f"the locations come of {add.op if add else below.origin.name!r}", _EXPECTED, add)
    sizes = _sizes(spatial_shapes)
    fault: UnprovedError | None = None
    for first, second in (add.inputs, list(reversed(add.inputs))):
        reference = through(add, first).after(below)
        for scaled in _scalings(climb_moved(second).after(through(add, second)).after(below)):
            try:
                return _proved(reference, scaled, sizes, points)
            except UnprovedError as error:
                # That of the reading in which an offset was found is the one to tell.
                fault = error if fault is None or scaled.over or scaled.times else fault
    raise fault or UnprovedError("the offsets are not scaled", _EXPECTED, add)


def _sizes(spatial_shapes: gs.Tensor) -> np.ndarray:
    """The (width, height) of each level."""
    constant = constant_of(spatial_shapes)
    if constant is None:
        raise UnprovedError(
            "the sizes of the levels are not constants", "constants, to compare the scale with"
        )
    return np.asarray(constant, np.float64).reshape(-1, 2)[:, ::-1]


def _scalings(moved: Moved) -> Iterator[_Scaled]:
    """Every reading of a chain of Mul and Div as one tensor scaled by others."""
    pending = [_Scaled(moved)]
    while pending:
        scaled = pending.pop()
        node = producer(scaled.moved.origin)
        if node is None or domain_of(node) or node.op not in ("Mul", "Div"):
            yield scaled
            continue
        for source, other in (node.inputs, list(reversed(node.inputs))):
            if node.op == "Div" and source is not node.inputs[0]:
                continue
            inner = climb_moved(source).after(through(node, source)).after(scaled.moved)
            number = constant_of(other)
            if number is not None and number.size == 1:
                value = float(number.reshape(-1)[0])
                factor = value if node.op == "Mul" else 1.0 / value if value else np.inf
                pending.append(replace(scaled, moved=inner, number=scaled.number * factor))
                continue
            beside = through(node, other).after(scaled.moved)
            if node.op == "Mul":
                pending.append(replace(scaled, moved=inner, times=(*scaled.times, beside)))
            else:
                pending.append(replace(scaled, moved=inner, over=(*scaled.over, beside)))


def _proved(reference: Moved, scaled: _Scaled, sizes: np.ndarray, points: int) -> Locations:
    offsets = scaled.moved.axes()
    shared_by = of_each(scaled.moved, "offsets")
    arranged = arrange(scaled.moved.origin, [(role, offsets[role]) for role in ROLES])
    if scaled.times and not scaled.over:
        tables = [moved for moved in scaled.times if constant_of(moved.origin) is not None]
        if len(tables) == 1 and len(scaled.times) == 1:
            checked = _checked(arranged, tables[0], scaled.number, sizes, False)
            return Locations(_points_of(reference), checked, shared_by)
        if len(scaled.times) == 1:
            boxes = _boxes(reference, scaled.times[0], scaled.number, points)
            return Locations(boxes, arranged, shared_by)
    if len(scaled.over) == 1 and not scaled.times:
        checked = _checked(arranged, scaled.over[0], scaled.number, sizes, True)
        return Locations(_points_of(reference), checked, shared_by)
    raise UnprovedError("the offsets are scaled in another way", _EXPECTED, None)


def of_each(moved: Moved, what: str) -> Size:
    """Returns the number of batch entries that share the moved tensor. Raises UnprovedError if queries, heads or samples
    share it.
    """
    repeats = moved.repeats()
    for role, times in repeats.items():
        if role != "batch" and times != ONE:
            raise UnprovedError(f"the {what} are the same for {times} {role}", f"{what} of each")
    return repeats["batch"]


def _checked(arranged: Arranged, table: Moved, number: float, sizes: np.ndarray, divides: bool) -> Arranged:
    """The offsets, if the table scales them by (1 / width, 1 / height) of each level; else raises UnprovedError."""
    constant = constant_of(table.origin)
    if constant is None:
        raise UnprovedError(f"{table.origin.name!r}, which scales the offsets, is no constant", "a constant")
    axes = table.axes()
    if any(axes[role] for role in ROLES if role not in ("levels", "coordinates")):
        raise UnprovedError(
            f"{table.origin.name!r} differs between queries, heads or points", "one scale a level"
        )
    order = arrange(table.origin, [("levels", axes["levels"]), ("coordinates", axes["coordinates"])])
    values = np.asarray(constant, np.float64)
    if order.split is not None:
        values = values.reshape(order.split)
    if order.perm is not None:
        values = values.transpose(order.perm)
    levels = int(extent(axes["levels"]).number)
    values = values.reshape(levels, -1)
    scale = np.broadcast_to(number / values if divides else number * values, sizes.shape)
    if not np.allclose(scale * sizes, 1.0, rtol=1e-6, atol=0.0):
        raise UnprovedError(
            f"{table.origin.name!r} is {values.tolist()}", f"(width, height), {sizes.tolist()}"
        )
    return arranged


def _reference_roles(moved: Moved) -> list[tuple[str, Atoms]]:
    """The axes of the reference points, in order. Raises UnprovedError if heads differ or (x, y) are not two numbers."""
    axes = moved.axes()
    if axes["heads"]:
        raise UnprovedError(f"{moved.origin.name!r} differs between heads", "one reference for all heads")
    if int(extent(axes["coordinates"]).number) != 2:
        raise UnprovedError(f"{moved.origin.name!r} has one number a point", "x and y")
    repeats = moved.repeats()
    if repeats["queries"] != ONE or (axes["batch"] and repeats["batch"] != ONE):
        raise UnprovedError(
            f"queries or entries of the batch share {moved.origin.name!r}", "a reference of each"
        )
    return [(role, axes[role]) for role in ROLES if role != "heads"]


def _points_of(moved: Moved) -> Arranged:
    """Reference points (x, y), for each level or the same for all."""
    return arrange(moved.origin, _reference_roles(moved))


def _boxes(centre: Moved, extents: Moved, number: float, points: int) -> Arranged:
    """Reference boxes (cx, cy, w, h): centre and size are parts of one tensor, scaled by a half over the number of
    points.
    """
    if not isclose(number * points, 0.5, rel_tol=1e-6):
        raise UnprovedError(f"the offsets are scaled by {number:.6g}", f"0.5 / {points} points")
    first, second = (climb_moved(moved.origin).after(moved) for moved in (centre, extents))
    if first.origin is not second.origin:
        raise UnprovedError(
            f"centre and size come from {first.origin.name!r} and {second.origin.name!r}", "boxes: one tensor"
        )
    places = [moved.layout() for moved in (first, second)]
    roles = [_reference_roles(moved) for moved in (first, second)]
    if roles[0] != roles[1]:
        raise UnprovedError("centre and size are moved in different ways", "one way")
    (atom,) = roles[0][-1][1]
    starts = [dict(place.offsets).get(atom.axis, 0) for place in places]
    if starts != [0, 2] or any(set(place.offsets) - {atom.axis} for place in places):
        raise UnprovedError(f"centre and size begin at {starts}", "0 and 2 of (cx, cy, w, h)")
    return arrange(
        first.origin, [*roles[0][:-1], ("coordinates", (replace(atom, size=replace(atom.size, number=4)),))]
    )


NAME = "attention-from-offsets"
OP = next(op for op in OPS if op.chain == NAME)

SOFTMAX_OF_ONE_AXIS = 13
"""The first opset in which a Softmax is over one axis, and over the last where it is not told."""

_FIX = "none is needed: softmax and locations stay nodes of their own, which costs time and no accuracy"


@dataclass(frozen=True)
class _OffsetMatch:
    """Sources of the new node's inputs reference, offsets and logits, each with the steps from a tensor of the graph."""

    reference: Arranged
    offsets: Arranged
    logits: Arranged


def take_offsets(graph: gs.Graph) -> Iterator[Record]:
    """Replaces each plugin node by the one with softmax and locations, where the nodes before it are proved to be those."""
    for part in all_graphs(graph):
        kept = {id(tensor) for tensor in part.outputs}
        for node in list(part.nodes):
            if node.op != PLAIN.name or domain_of(node) != PLUGIN_NAMESPACE:
                continue
            softmax = _softmax(node)
            if softmax is None:
                continue
            try:
                match = _match(node, *softmax, opset_of(graph, ""))
            except UnprovedError as error:
                refusal = Refusal(error.reason, error.expected, _FIX)
                yield Declined(node.name, node.op, NAME, refusal, fatal=False)
                continue
            new = _plugin_nodes(node, match)
            yield Rewrite(
                node.name, node.op, NAME, f"plugin {OP.name}: with softmax and locations", new[-1].name
            )
            _replace(part, node, new, kept)


def _softmax(node: gs.Node) -> tuple[gs.Node, Moved] | None:
    """The Softmax that makes the weights, and the moves behind it; None if there is none."""
    moved = climb_moved(_input(node, "attention_weights"))
    made = producer(moved.origin)
    if made is None or made.op != "Softmax" or domain_of(made):
        return None
    return made, moved


def _match(node: gs.Node, softmax: gs.Node, weights: Moved, opset: int) -> _OffsetMatch:
    moved = weights.axes()
    rank = len(dims_of(softmax.inputs[0]) or ())
    # Before opset 13 all axes from `axis` on are one, and it is 1 where it is not given.
    axis = int(softmax.attrs.get("axis", -1 if opset >= SOFTMAX_OF_ONE_AXIS else 1))
    if axis % max(rank, 1) != rank - 1:
        raise UnprovedError(f"the Softmax is over axis {axis}", "the last of its axes", softmax)
    over = [atom.axis == rank - 1 for role in ROLES[3:5] for atom in moved[role]]
    beside = [atom.axis == rank - 1 for role in ROLES[:3] for atom in moved[role]]
    if not all(over) or any(beside):
        raise UnprovedError(
            "the Softmax is over other axes", "a sum over all levels and points of a head", softmax
        )
    shared_by = of_each(weights, "weights")
    logits = arrange(softmax.inputs[0], [(role, moved[role]) for role in ROLES[:5]])
    found: Locations = find_locations(
        _input(node, "sampling_locations"), _input(node, "spatial_shapes"), _points(node)
    )
    if found.shared_by != shared_by:
        what = f"{found.shared_by} entries of the batch share offsets, and {shared_by} share weights"
        raise UnprovedError(what, "as many of both", node)
    return _OffsetMatch(found.reference, found.offsets, logits)


def _points(node: gs.Node) -> int:
    dims = dims_of(_input(node, "attention_weights"))
    points = dims[4] if dims is not None and len(dims) == 5 else None
    if not isinstance(points, int):
        raise UnprovedError("the number of points is not known", "a static number of points", node)
    return points


def _input(node: gs.Node, port: str) -> gs.Tensor:
    names = [item.name for item in PLAIN.inputs]
    return node.inputs[names.index(port)]


def _plugin_nodes(node: gs.Node, match: _OffsetMatch) -> list[gs.Node]:
    name = f"{node.name}/{OP.name}"
    nodes: list[gs.Node] = []
    inputs = {port.name: _input(node, port.name) for port in OP.inputs if _has(port.name)}
    for port, how in (
        ("reference_points", match.reference),
        ("sampling_offsets", match.offsets),
        ("attention_logits", match.logits),
    ):
        inputs[port], before = how.nodes(f"{name}/{port}")
        nodes += before
    reference = inputs["reference_points"]
    if dtype_of(reference) != np.float32:
        wide = gs.Variable(f"{reference.name}_float32", dtype=np.float32)
        nodes.append(gs.Node("Cast", f"{name}/Cast", {"to": 1}, [reference], [wide]))
        inputs["reference_points"] = wide
    ports = [inputs[port.name] for port in OP.inputs]
    outputs = list(node.outputs)
    node.outputs.clear()
    nodes.append(gs.Node(OP.name, name, plugin_attributes(OP, {}), ports, outputs, domain=PLUGIN_NAMESPACE))
    return nodes


def _has(port: str) -> bool:
    return any(item.name == port for item in PLAIN.inputs)


def _replace(part: gs.Graph, node: gs.Node, new: list[gs.Node], kept: set[int]) -> None:
    """Replaces the node by the new nodes, and removes nodes that become unused."""
    index = next(i for i, other in enumerate(part.nodes) if other is node)
    part.nodes[index : index + 1] = new
    own = {id(other) for other in part.nodes}
    gone: set[int] = set()
    pending = [node]
    while pending:
        dead = pending.pop()
        sources = list(dead.inputs)
        dead.inputs.clear()
        dead.outputs.clear()
        gone.add(id(dead))
        for tensor in sources:
            made = producer(tensor)
            if made is not None and id(made) in own and id(made) not in gone and _unused(made, kept):
                pending.append(made)
    part.nodes[:] = [other for other in part.nodes if id(other) not in gone]


def _unused(node: gs.Node, kept: set[int]) -> bool:
    return not any(id(tensor) in kept or tensor.outputs for tensor in node.outputs)

"""Moves the softmax and the sampling locations of multi-scale deformable attention into the plugin node.

Exporters write, before the attention itself, a Softmax over the levels and points of each head, and locations as
`reference + offset / (width, height)` or, for boxes, `centre + offset / points * (width, height) / 2`. As nodes of their
own these write and read again tensors as large as the value itself; one plugin computes them where it samples. The pass
proves with layouts that the plugin's inputs are moved as it expects, whatever nodes move them; the scale of the offsets is
compared number by number. What is written in another way stays as it is: the plugin without them takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from trtsmith.converter.rewrite.custom_ops.attention_locations import Locations, find_locations, of_each
from trtsmith.converter.rewrite.custom_ops.broadcasts import ROLES, Arranged, Moved, arrange, climb_moved
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of
from trtsmith.converter.rewrite.custom_ops.grid_sample_attention import OP as PLAIN
from trtsmith.converter.rewrite.custom_ops.layout import UnprovedError
from trtsmith.converter.rewrite.custom_ops.shape_values import dims_of
from trtsmith.converter.rewrite.custom_ops.surgery import all_graphs, domain_of, opset_of
from trtsmith.converter.rewrite.custom_ops.traces import producer
from trtsmith.converter.rewrite.engine.records import Declined, Record, Rewrite
from trtsmith.importers.fields import plugin_attributes
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Refusal
from trtsmith.importers.registry import OPS

NAME = "attention-from-offsets"
OP = next(op for op in OPS if op.chain == NAME)

SOFTMAX_OF_ONE_AXIS = 13
"""The first opset in which a Softmax is over one axis, and over the last where it is not told."""

_FIX = "none is needed: softmax and locations stay nodes of their own, which costs time and no accuracy"


@dataclass(frozen=True)
class _OffsetMatch:
    """reference, offsets, logits: of the new node; what makes each of them of a tensor of the graph."""

    reference: Arranged
    offsets: Arranged
    logits: Arranged


def take_offsets(graph: gs.Graph) -> Iterator[Record]:
    """Put the one plugin into the place of the other wherever the nodes before it are proved to be what it computes."""
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
    """The Softmax that the weights come from, and how they are moved from there."""
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
    """Replace the node by the new nodes, and remove what is unused then."""
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

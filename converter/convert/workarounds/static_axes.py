"""Writes the sizes that the profile fixes into the graph, and everything that they decide as constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from trtsmith.converter.convert.workarounds.refusals import Profiles, RefusedGraph
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.engine.reduction.value_sizes import value_sizes
from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.graph.outer_values import read_by
from trtsmith.converter.graph.walk import all_graphs, refill
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.phases import RewriteOptions, run_rules
from trtsmith.importers.registry import normalise_domain

_AXES_INPUT_OPSET = 13


def with_static_axes(graph: RefusedGraph) -> Model | None:
    """Returns the whole graph for its profile only; None if the profile fixes no size that the graph leaves open."""
    proto = graph.model.copied()
    if not _fix_inputs(proto, graph.profiles):
        return None
    for part in all_graphs(proto.graph):
        del part.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    model = infer_shapes(graph.model.with_proto(proto))
    _write_constants(model, graph.profiles)
    _write_axes(model)
    model = run_rules(infer_shapes(model), RewriteOptions().legal_rules())
    _drop_unread(model.proto.graph)
    return infer_shapes(model)


def _fix_inputs(proto: onnx.ModelProto, profiles: Profiles) -> bool:
    """Gives inputs the sizes that are equal at all corners of all profiles. Returns whether there were any."""
    done = False
    for value in proto.graph.input:
        ranges = [profile[value.name] for profile in profiles if value.name in profile]
        dims = value.type.tensor_type.shape.dim
        if not ranges or len(ranges) < len(profiles) or any(r.values for r in ranges):
            continue
        corners: Sequence[Sequence[int]] = [c for r in ranges for c in (r.min, r.opt, r.max)]
        if any(len(corner) != len(dims) for corner in corners):
            continue
        for dim, sizes in zip(dims, zip(*corners, strict=True), strict=True):
            if len(set(sizes)) == 1 and not dim.HasField("dim_value"):
                dim.Clear()
                dim.dim_value = sizes[0]
                done = True
    return done


def _write_constants(model: Model, profiles: Profiles) -> None:
    """Turns values that sizes decide into initializers, in place."""
    table = NodeTable(model)
    inputs = {value.name for value in model.proto.graph.input}
    known: Mapping[str, tuple[np.ndarray, ...]] = value_sizes(
        table, [{name: p for name, p in one.items() if name in inputs} for one in profiles]
    ).fixed
    graph = model.proto.graph
    outputs = {value.name for value in graph.output}
    kept, made = [], {}
    for node in graph.node:
        names = [name for name in node.output if name]
        arrays = {name: known[name] for name in names if name in known and name not in outputs}
        same = {n: a[0] for n, a in arrays.items() if all(np.array_equal(a[0], other) for other in a)}
        if names and len(same) == len(names):
            made.update(same)
        else:
            kept.append(node)
    refill(graph.node, kept)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in made.items())


def _write_axes(model: Model) -> None:
    """Gives each Squeeze without axes its axes if all sizes are known, in place."""
    proto = model.proto
    shapes = value_shapes(proto)
    repeated = NodeTable(model).repeated  # whose shapes may be of another graph
    opset = next((o.version for o in proto.opset_import if not normalise_domain(o.domain)), 1)
    for part in all_graphs(proto.graph):
        for node in part.node:
            if node.op_type != "Squeeze" or normalise_domain(node.domain) or node.attribute:
                continue
            shape = None if node.input[0] in repeated else shapes.get(node.input[0])
            if (len(node.input) > 1 and node.input[1]) or shape is None or None in shape:
                continue
            axes = [axis for axis, size in enumerate(shape) if size == 1]
            if opset < _AXES_INPUT_OPSET:
                node.attribute.append(helper.make_attribute("axes", axes))
                continue
            name = f"{node.output[0]}/axes"
            part.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), name))
            del node.input[1:]
            node.input.append(name)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Removes nodes without readers, in place."""
    wanted = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(read_by(node))
    refill(graph.node, reversed(kept))
    held = [tensor for tensor in graph.initializer if tensor.name in wanted]
    refill(graph.initializer, held)

"""Rewrites nodes that TensorRT refuses, by mitigations in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import onnx
from onnx import helper

from trtsmith.converter.convert.workarounds.float_constants import with_float_constants
from trtsmith.converter.convert.workarounds.refusals import Mitigation, RefusedGraph
from trtsmith.converter.convert.workarounds.static_axes import with_static_axes
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes, value_shapes
from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.graph.walk import all_graphs, refill, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.phases import run_rules
from trtsmith.converter.rewrite.rules.stock.stock_forms import narrow, wide
from trtsmith.converter.verify.constant_outputs import RANDOM
from trtsmith.importers.expansion import ExpansionError, expand_model
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import normalise_domain


def with_inlined_ifs(graph: RefusedGraph) -> Model | None:
    """Inlines the refused If nodes whose branches give one known shape; None if there are none."""
    proto = graph.model.copied()
    inferred = infer_shapes(graph.model).proto
    fresh = FreshNames.of(proto)
    nodes: list[onnx.NodeProto] = []
    done = False
    for number, node in enumerate(proto.graph.node):
        if node.op_type == "If" and not normalise_domain(node.domain) and graph.concerns(node):
            same = _gives_one_shape(inferred.graph.node[number], inferred)
            made = _inlined(node, fresh, proto.graph) if same else None
            if made is not None:
                nodes += made
                done = True
                continue
        nodes.append(node)
    if not done:
        return None
    refill(proto.graph.node, nodes)
    return infer_shapes(graph.model.with_proto(proto))


def _gives_one_shape(node: onnx.NodeProto, whole: onnx.ModelProto) -> bool:
    """Whether both branches are known to give the same sizes. node: of `whole`, with inferred types."""
    found = []
    for branch in subgraphs(node):
        alone = onnx.ModelProto(graph=branch)  # branches may give values the same names
        shapes = {**value_shapes(whole), **value_shapes(alone)}
        found.append([shapes.get(value.name) for value in branch.output])
    return found[0] == found[1] and all(shape is not None and None not in shape for shape in found[0])


def _inlined(
    node: onnx.NodeProto,
    fresh: FreshNames,
    graph: onnx.GraphProto,
) -> list[onnx.NodeProto] | None:
    branches = {a.name: a.g for a in node.attribute}
    then, other = branches["then_branch"], branches["else_branch"]
    if any(n.op_type in RANDOM for g in (then, other) for part in all_graphs(g) for n in part.node):
        return None
    made: list[onnx.NodeProto] = []
    results = []
    for branch in (then, other):
        names = {n: fresh.value(n) for n in _own_names(branch)}
        for inner in branch.node:
            copied = deepcopy(inner)
            rename_values(copied, names, fresh.value)
            made.append(copied)
        for tensor in branch.initializer:
            held = deepcopy(tensor)
            held.name = names[tensor.name]
            graph.initializer.append(held)
        results.append([names.get(value.name, value.name) for value in branch.output])
    for index, name in enumerate(node.output):
        if name:
            where = [node.input[0], results[0][index], results[1][index]]
            made.append(helper.make_node("Where", where, [name], name=f"{node.name or name}/chosen_{index}"))
    return made


def _own_names(graph: onnx.GraphProto) -> list[str]:
    return [
        *(tensor.name for tensor in graph.initializer),
        *(name for node in graph.node for name in node.output if name),
    ]


def with_identities_before_casts(graph: RefusedGraph) -> Model | None:
    """Inserts an Identity before the computed input of refused Casts; None if there are none.

    TensorRT-RTX 1.7.1 fails ("ssa_validation") where one GridSample reads positions in float32 and a Cast makes those of
    another in 16 bits: the alignment of BasicVSR++ with inputs in 16 bits. With an Identity before the GridSample, too, it
    fails as well.
    """
    return _with_identities(graph, lambda node: graph.concerns(node) and node.op_type == "Cast")


def with_identities(graph: RefusedGraph) -> Model | None:
    """Inserts an Identity before computed inputs of refused nodes; None if there are none."""
    return _with_identities(graph, graph.concerns)


def _with_identities(graph: RefusedGraph, behind: Callable[[onnx.NodeProto], bool]) -> Model | None:
    proto = graph.model.copied()
    made = {name for node in proto.graph.node if node.op_type != "Constant" for name in node.output if name}
    fresh = FreshNames.of(proto)
    nodes: list[onnx.NodeProto] = []
    done = False
    for node in proto.graph.node:
        if behind(node):
            for index, name in enumerate(node.input):
                if name in made:
                    apart = fresh.value(f"{name}/apart")
                    nodes.append(helper.make_node("Identity", [name], [apart], name=apart))
                    node.input[index] = apart
                    done = True
        nodes.append(node)
    if not done:
        return None
    refill(proto.graph.node, nodes)
    return infer_shapes(graph.model.with_proto(proto))


def with_expanded_plugins(graph: RefusedGraph) -> Model | None:
    """Expands the refused plugin nodes; None if there are none, or if they cannot be expanded."""
    proto = graph.model.copied()
    others = {}
    found = False
    for number, node in enumerate(proto.graph.node):
        if node.domain != PLUGIN_NAMESPACE:
            continue
        if graph.concerns(node):
            found = True
        else:  # kept from being expanded by a name that no definition has
            others[number] = node.op_type
    if not found:
        return None
    hidden = "kept::"
    for number, op_type in others.items():
        proto.graph.node[number].op_type = hidden + op_type
    try:
        expanded = expand_model(proto, value_dtypes(infer_shapes(graph.model).proto))
    except ExpansionError:
        return None
    for node in expanded.graph.node:
        if node.op_type.startswith(hidden):
            node.op_type = node.op_type.removeprefix(hidden)
    if others and PLUGIN_NAMESPACE not in {o.domain for o in expanded.opset_import}:
        expanded.opset_import.add(domain=PLUGIN_NAMESPACE, version=1)
    return infer_shapes(graph.model.with_proto(expanded))


def with_written_elus(graph: RefusedGraph) -> Model | None:
    """Rewrites the refused Elu nodes as max(x, 0) + alpha (e^min(x, 0) - 1); None if there are none.

    TensorRT-RTX 1.7.1 gives the Elu behind some LSTMs, convolutions and slices alpha as a second input, and refuses it.
    """

    def written(node: NodeView) -> Replacement | None:
        if not graph.concerns(node.proto):
            return None
        w = Writer(node)
        x = wide(w, 0)
        below = w.Sub(w.Exp(w.Min(x, 0.0)), 1.0)
        result = w.Add(w.Relu(x), w.Mul(below, float(node.attributes.get("alpha", 1.0))))
        return Replacement(w.finish(narrow(w, result, node.dtype(0) or "float32")), "by its formula")

    if not any(node.op_type == "Elu" and graph.concerns(node) for node in graph.model.proto.graph.node):
        return None
    return run_rules(
        infer_shapes(graph.model), [NodeRule("written-elu", "Elu by its formula", ("Elu",), written)]
    )


MITIGATIONS: tuple[Mitigation, ...] = (
    Mitigation(
        "static-axes",
        "sizes that the profile fixes, and the values that follow from them, become constants",
        "the engine takes no other sizes than those of its profile",
        with_static_axes,
    ),
    Mitigation(
        "inlined-if",
        "both branches of the If are computed, and the condition chooses between the results",
        "branches have no effects but their results, and both give one known shape",
        with_inlined_ifs,
    ),
    Mitigation(
        "expanded-plugin",
        "the plugin's operator is written in standard operators",
        "",
        with_expanded_plugins,
    ),
    Mitigation(
        "float-constants",
        "8-bit constants that are only moved before they are dequantized or cast are float32",
        "float32 holds every 8-bit number, and their differences, exactly",
        with_float_constants,
    ),
    Mitigation(
        "written-elu",
        "Elu is written as max(x, 0) + alpha (e^min(x, 0) - 1)",
        "that is its definition",
        with_written_elus,
        known=(r"Error during shape inference of .* = elu\(", "Elu"),
    ),
    Mitigation(
        "identities-before-casts",
        "an Identity stands before each Cast of the nodes",
        "an Identity changes no value",
        with_identities_before_casts,
    ),
    Mitigation(
        "identities",
        "an Identity stands before each input of the nodes",
        "an Identity changes no value",
        with_identities,
    ),
)

"""Cuts out the nodes that compute one node's outputs from values that are known, as a model of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.locate.fault_graph import GraphView, with_outputs
from trtsmith.converter.model.model import Model

MOST_SIZES = 64
"""Numbers of an input that is taken for sizes, at the most."""


@dataclass(frozen=True)
class Region:
    """nodes: indices, the one that it is about last; most have no other. inputs and outputs: names of known values."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def region_of(view: GraphView, index: int, known: Iterable[str]) -> Region:
    """The node, and those before it that stand between it and known values.

    known: names of values that are given, of graph inputs too. Outputs are those of the node that are among them.
    """
    have = frozenset(known)
    nodes: set[int] = set()
    inputs: dict[str, None] = {}
    waiting = [index]
    while waiting:
        at = waiting.pop()
        if at in nodes:
            continue
        nodes.add(at)
        for name in view.reads[at]:
            if name in have:
                inputs[name] = None
            elif name in view.producer:
                waiting.append(view.producer[name])
    outputs = tuple(name for name in view.nodes[index].output if name in have)
    return Region(tuple(sorted(nodes)), tuple(inputs), outputs)


def sizes_among(view: GraphView, region: Region, given: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Inputs of a region that may be sizes, which TensorRT wants constant: few numbers, whatever the graph's inputs are.

    Larger values of that kind stay inputs: of a graph of constants alone TensorRT computes nothing when it runs.
    """
    fixed = frozenset(region.inputs) - view.varying
    return frozenset(name for name in fixed if np.size(given[name]) <= MOST_SIZES)


def segment(view: GraphView, nodes: range) -> Region:
    """Consecutive nodes, with all that they read of others and all that others read of them."""
    made = {name for i in nodes for name in view.nodes[i].output if name}
    read = dict.fromkeys(name for i in nodes for name in view.reads[i] if name not in made)
    later = {name for i in range(nodes.stop, len(view.nodes)) for name in view.reads[i]} | set(view.outputs)
    inputs = tuple(name for name in read if name in view.producer or name in view.inputs)
    return Region(tuple(nodes), inputs, tuple(name for name in view.made_by(nodes) if name in later))


def region_model(
    view: GraphView,
    region: Region,
    values: Mapping[str, np.ndarray],
    outputs: Iterable[onnx.ValueInfoProto],
    constants: frozenset[str] = frozenset(),
) -> Model:
    """The region as a model: nodes, the initializers that they read, values as inputs of the sizes that they have.

    constants: inputs that become initializers with their values, as shapes are that an engine of fixed sizes knows.
    """
    whole = view.model.proto
    proto = onnx.ModelProto(
        ir_version=whole.ir_version, opset_import=whole.opset_import, functions=whole.functions
    )
    graph = proto.graph
    graph.name = "region"
    graph.node.extend(view.nodes[i] for i in region.nodes)
    read = {name for i in region.nodes for name in view.reads[i]}
    graph.initializer.extend(tensor for name, tensor in view.initializers.items() if name in read)
    graph.sparse_initializer.extend(
        tensor for tensor in whole.graph.sparse_initializer if tensor.values.name in read
    )
    for name in region.inputs:
        array = np.asarray(values[name])
        if name in constants:
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        else:
            elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, elem_type, array.shape))
    return infer_shapes(with_outputs(view.model.with_proto(proto), outputs))

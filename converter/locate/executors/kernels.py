"""Runs plugin nodes by their kernels through the plugin host, everything else in onnxruntime, without TensorRT.

It shows what a kernel does in its place in a model, on any CUDA GPU. What TensorRT makes of the other nodes it cannot show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.graph.constant_nodes import constant_value
from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.locate.executors.executor import COMPARABLE, Onnxruntime
from trtsmith.converter.locate.searched_graph import part_of, region_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.plugin.calls import KernelCall
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Arrays
from trtsmith.importers.registry import by_name


class PluginKernels(Protocol):
    """Kernels by plugin name, run as in trtsmith.converter.plugin.calls.Kernels."""

    def call(self, plugin: str, call: KernelCall) -> list[np.ndarray]: ...


class OnKernels:
    """An executor over the kernels of a library. Plugin nodes in subgraphs are expanded, as the host cannot call those."""

    name = "the plugins' kernels, with onnxruntime for the other nodes"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def __init__(self, kernels: PluginKernels) -> None:
        self._kernels = kernels

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """Runs onnxruntime up to each plugin node, in order, and then the node's kernel."""
        model = infer_shapes(model)
        table, types = NodeTable(model), value_types(model.proto)
        known = {**feeds, **{name: model.array(tensor) for name, tensor in table.initializers.items()}}
        for name, node in table.constant_nodes.items():
            if (value := constant_value(node, model)) is not None:
                known[name] = value
        waiting: list[int] = []
        for number in table.outer:
            node = table.nodes[number]
            if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
                _compute(table, waiting, types, known)
                known.update(self._run(node, known))
                waiting = []
            else:
                waiting.append(number)
        _compute(table, waiting, types, known)
        return {name: known[name] for name in table.outputs}

    def _run(self, node: onnx.NodeProto, known: Arrays) -> dict[str, np.ndarray]:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        fields = fields_of_node(by_name()[node.op_type], attributes)
        inputs = tuple(np.ascontiguousarray(known[name]) for name in node.input if name)
        with ScratchFolder("kernel") as folder:
            outputs = self._kernels.call(node.op_type, KernelCall(fields, inputs, Path(folder)))
        return dict(zip(node.output, outputs, strict=True))


def _compute(
    table: NodeTable,
    nodes: Sequence[int],
    types: Mapping[str, onnx.TypeProto.Tensor],
    known: dict[str, np.ndarray],
) -> None:
    """The values of consecutive nodes that anybody reads later, in onnxruntime."""
    later = {name for n in table.outer if nodes and n > nodes[-1] for name in table.reads[n]} | {
        *table.outputs
    }
    region = part_of(table, nodes, nodes)
    wanted = [name for name in region.outputs if name in later]
    infos = [onnx.ValueInfoProto(name=name) for name in wanted]
    for info in infos:
        if info.name in types:
            info.type.tensor_type.elem_type = types[info.name].elem_type
    if infos:
        given = {name: known[name] for name in region.inputs}
        known.update(Onnxruntime().execute(region_model(table, region, given, infos), given))

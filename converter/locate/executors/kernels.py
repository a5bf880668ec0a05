"""Runs plugin nodes by their kernels through the plugin host, everything else in onnxruntime, without TensorRT.

It shows what a kernel does in its place in a model, on any CUDA GPU. What TensorRT makes of the other nodes it cannot show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.infer import infer_shapes, value_types
from trtsmith.converter.locate.executors.executor import COMPARABLE, Arrays, Onnxruntime
from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.region import region_model, segment
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.process.scratch_folder import ScratchFolder
from trtsmith.converter.plugin.calls import KernelCall
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name


class PluginKernels(Protocol):
    """Plugins by name, as trtsmith.converter.plugin.calls.Kernels runs them."""

    def call(self, plugin: str, call: KernelCall) -> list[np.ndarray]: ...


class OnKernels:
    """An executor over the kernels of a library. Plugin nodes inside subgraphs are expanded: nobody calls them there."""

    name = "the plugins' kernels, with onnxruntime for the other nodes"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def __init__(self, kernels: PluginKernels) -> None:
        self._kernels = kernels

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """Plugin node by plugin node, in order: onnxruntime what comes before it, then the kernel."""
        model = infer_shapes(model)
        view = GraphView(model)
        types = value_types(model.proto)
        known: dict[str, np.ndarray] = dict(feeds)
        known |= {name: model.array(tensor) for name, tensor in view.initializers.items()}
        start = 0
        for index, node in enumerate(view.nodes):
            if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
                _compute(view, range(start, index), types, known)
                known.update(self._run(node, known))
                start = index + 1
        _compute(view, range(start, len(view.nodes)), types, known)
        return {name: known[name] for name in view.outputs}

    def _run(self, node: onnx.NodeProto, known: Arrays) -> dict[str, np.ndarray]:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        fields = fields_of_node(by_name()[node.op_type], attributes)
        inputs = tuple(np.ascontiguousarray(known[name]) for name in node.input if name)
        with ScratchFolder("kernel") as folder:
            outputs = self._kernels.call(node.op_type, KernelCall(fields, inputs, Path(folder)))
        return dict(zip(node.output, outputs, strict=True))


def _compute(
    view: GraphView, nodes: range, types: dict[str, onnx.TypeProto.Tensor], known: dict[str, np.ndarray]
) -> None:
    """The values of consecutive nodes that anybody reads later, in onnxruntime."""
    region = segment(view, nodes)
    if not region.outputs:
        return
    infos = []
    for name in region.outputs:
        info = onnx.ValueInfoProto(name=name)
        if name in types:
            info.type.tensor_type.elem_type = types[name].elem_type
        infos.append(info)
    given = {name: known[name] for name in region.inputs}
    known.update(Onnxruntime().execute(region_model(view, region, given, infos), given))

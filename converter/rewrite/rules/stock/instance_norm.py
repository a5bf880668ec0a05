"""Rewrites TensorRT's, mmdeploy's and mmcv's plugins for instance normalisation as ONNX's.

Sources: NVIDIA/TensorRT, plugin/instanceNormalizationPlugin/instanceNormalizationPlugin.cu and instanceNormCommon.h (release
11.1): scales and bias are attributes, `relu` above 0 ends with a leaky ReLU of slope `alpha`. open-mmlab/mmdeploy,
csrc/mmdeploy/backend_ops/tensorrt/instance_norm/trt_instance_norm.cpp, and open-mmlab/mmcv 1.x,
mmcv/ops/csrc/tensorrt/plugins/trt_instance_norm.cpp: they are inputs, and epsilon is 1e-5 where it is absent. All compute in
float32 and take the variance of the whole population.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    wide,
)

_NONE = np.zeros(0, np.float32)

_PORTS = {
    "InstanceNormalization_TRT": PluginPorts(),
    "TRTInstanceNormalization": PluginPorts(3, floats=(0, 1, 2)),
    "MMCVInstanceNormalization": PluginPorts(3, floats=(0, 1, 2)),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    w, dtype = Writer(node), str(node.dtype(0))
    if node.op_type == "InstanceNormalization_TRT":
        return _with_attributes(w, dtype)
    given = settings(node, epsilon=1e-5)
    if isinstance(given, Refusal):
        return given
    scale, bias = (wide(w, name, node.dtype(i)) for i, name in ((1, w.x[1]), (2, w.x[2])))
    unit = w.InstanceNormalization(wide(w, w.x[0], dtype), scale, bias, epsilon=float(given["epsilon"]))
    return Replacement(w.finish(narrow(w, unit, dtype)), "InstanceNormalization")


def _with_attributes(w: Writer, dtype: str) -> Replacement | Refusal:
    given = settings(w.node, epsilon=float, scales=_NONE, bias=_NONE, relu=0, alpha=0.0)
    if isinstance(given, Refusal):
        return given
    scales, bias = given["scales"], given["bias"]
    dims = w.node.shape(0)
    channels = dims[1] if dims and len(dims) > 1 else None
    if not scales.size or scales.size != bias.size or channels not in (None, scales.size):
        return Refusal(
            f"{scales.size} scales and {bias.size} values of bias for {channels or 'unknown'} channels",
            "a scale and a bias for each channel",
            "write attributes 'scales' and 'bias' with as many floats as the input has channels",
        )
    unit = w.InstanceNormalization(wide(w, w.x[0], dtype), scales, bias, epsilon=float(given["epsilon"]))
    if given["relu"] > 0:
        unit = w.LeakyRelu(unit, alpha=float(given["alpha"]))
    what = "InstanceNormalization" + (" and LeakyRelu" if given["relu"] > 0 else "")
    return Replacement(w.finish(narrow(w, unit, dtype)), what)


STOCK_INSTANCE_NORM = NodeRule(
    "stock-instance-norm",
    "plugins for instance normalisation become InstanceNormalization",
    kinds(*_PORTS, domains=("mmdeploy", "mmcv")),
    checked(_PORTS, _rewrite),
)

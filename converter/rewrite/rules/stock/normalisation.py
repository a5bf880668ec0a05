"""Rewrites group and instance normalisation plugins as ONNX's InstanceNormalization.

Instance normalisation. Sources: NVIDIA/TensorRT, plugin/instanceNormalizationPlugin/instanceNormalizationPlugin.cu and
instanceNormCommon.h (release 11.1): scales and bias are attributes, `relu` above 0 ends with a leaky ReLU of slope
`alpha`. open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/instance_norm/trt_instance_norm.cpp, and
open-mmlab/mmcv 1.x, mmcv/ops/csrc/tensorrt/plugins/trt_instance_norm.cpp: they are inputs, and epsilon is 1e-5 where it
is absent. All compute in float32 and take the variance of the whole population.

Group normalisation, with or without SiLU behind it, becomes InstanceNormalization of groups.
Wu and He, arXiv 1803.08494. Sources:
- NVIDIA/TensorRT, plugin/groupNormalizationPlugin/groupNormalizationPlugin.cpp: `eps` (its README says epsilon) and
  `num_groups`, defaults 1e-5 and 1; inputs x [N, C, ...], scale [C], bias [C].
- NVIDIA/TensorRT, release 8.5 and the commits up to "Remove SD plugins", plugin/groupNormPlugin/groupNormPlugin.cpp, for
  demo/Diffusion: always 32 groups, `epsilon` (ignored before February 2023, of use since) and `bSwish`; a group without
  any variance is only centred there, which comes to the same.
- grimoire/amirstan_plugin, src/plugin/groupNormPlugin/groupNormPlugin.cpp: `num_groups`, `eps`.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import silu
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    kinds,
    narrow,
    rewriter,
    settings,
    wide,
)

_DIFFUSION_GROUPS = 32


def _settings(node: NodeView) -> tuple[int, float, bool]:
    """The groups, epsilon, and whether SiLU follows."""
    if node.op_type == "GroupNorm":
        given = settings(node, epsilon=1e-5, bSwish=0)
        return _DIFFUSION_GROUPS, given["epsilon"], bool(given["bSwish"])
    groups = 1 if node.op_type == "GroupNormalizationPlugin" else int
    given = settings(node, eps=1e-5, num_groups=groups)
    return int(given["num_groups"]), given["eps"], False


def _group_norm(w: Writer, dtype: str) -> Replacement | Refusal:
    dims = w.node.known_shape(0)
    groups, epsilon, with_silu = _settings(w.node)
    if len(dims) < 3 or groups < 1 or (dims[1] is not None and dims[1] % groups):
        shown = "x".join("?" if dim is None else str(dim) for dim in dims)
        return Refusal(
            f"its input of shape {shown} has no {groups} groups of channels",
            "an input of shape NxCx... whose number of channels is a multiple of the groups",
            "correct the number of groups where the node is made",
        )
    data = wide(w, 0)
    w.expect(f"{groups:,} groups", nbytes=8 * groups)
    ones, zeros = (w.constant(np.full(groups, value, np.float32)) for value in (1, 0))
    parts = w.Reshape(data, shape=[0, groups, -1])
    unit = w.InstanceNormalization(parts, ones, zeros, epsilon=float(epsilon))
    normal = w.Reshape(unit, w.shape(data))
    column = [-1, *[1] * (len(dims) - 2)]
    gamma, beta = (w.Reshape(wide(w, i), shape=column) for i in (1, 2))
    shifted = w.Add(w.Mul(normal, gamma), beta)
    return Replacement(
        w.finish(narrow(w, silu(w, shifted) if with_silu else shifted, dtype)),
        f"InstanceNormalization of {groups} groups",
    )


_GROUP_NORMS = dict.fromkeys(
    ("GroupNormalizationPlugin", "GroupNorm", "GroupNormPluginDynamic"),
    PluginForm(_group_norm, least=3, floats=(0, 1, 2)),
)

STOCK_GROUP_NORM = NodeRule(
    "stock-group-norm",
    "plugins for group normalisation become InstanceNormalization of groups",
    kinds(*_GROUP_NORMS),
    rewriter(_GROUP_NORMS),
)


_NONE = np.zeros(0, np.float32)


def _with_inputs(w: Writer, dtype: str) -> Value:
    given = settings(w.node, epsilon=1e-5)
    scale, bias = wide(w, 1), wide(w, 2)
    unit = w.InstanceNormalization(wide(w, 0), scale, bias, epsilon=float(given["epsilon"]))
    return narrow(w, unit, dtype)


def _with_attributes(w: Writer, dtype: str) -> Replacement | Refusal:
    given = settings(w.node, epsilon=float, scales=_NONE, bias=_NONE, relu=0, alpha=0.0)
    scales, bias = given["scales"], given["bias"]
    dims = w.node.shape(0)
    channels = dims[1] if dims and len(dims) > 1 else None
    if not scales.size or scales.size != bias.size or channels not in (None, scales.size):
        return Refusal(
            f"{scales.size} scales and {bias.size} values of bias for {channels or 'unknown'} channels",
            "a scale and a bias for each channel",
            "write attributes 'scales' and 'bias' with as many floats as the input has channels",
        )
    unit = w.InstanceNormalization(wide(w, 0), scales, bias, epsilon=float(given["epsilon"]))
    if given["relu"] > 0:
        unit = w.LeakyRelu(unit, alpha=float(given["alpha"]))
    what = "InstanceNormalization" + (" and LeakyRelu" if given["relu"] > 0 else "")
    return Replacement(w.finish(narrow(w, unit, dtype)), what)


_OF_MMDEPLOY = PluginForm(_with_inputs, "InstanceNormalization", 3, floats=(0, 1, 2))
_INSTANCE_NORMS = {
    "InstanceNormalization_TRT": PluginForm(_with_attributes),
    "TRTInstanceNormalization": _OF_MMDEPLOY,
    "MMCVInstanceNormalization": _OF_MMDEPLOY,
}

STOCK_INSTANCE_NORM = NodeRule(
    "stock-instance-norm",
    "plugins for instance normalisation become InstanceNormalization",
    kinds(*_INSTANCE_NORMS, domains=("mmdeploy", "mmcv")),
    rewriter(_INSTANCE_NORMS),
)

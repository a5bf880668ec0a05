"""Rewrites plugins for group normalisation, with or without SiLU behind it, as InstanceNormalization of groups.

Wu and He, arXiv 1803.08494. Sources:
- NVIDIA/TensorRT, plugin/groupNormalizationPlugin/groupNormalizationPlugin.cpp: `eps` (its README says epsilon) and
  `num_groups`, defaults 1e-5 and 1; inputs x [N, C, ...], scale [C], bias [C].
- NVIDIA/TensorRT, release 8.5 and the commits up to "Remove SD plugins", plugin/groupNormPlugin/groupNormPlugin.cpp, for
  demo/Diffusion: always 32 groups, `epsilon` (ignored before February 2023, of use since) and `bSwish`; a group without
  any variance is only centred there, which comes to the same.
- grimoire/amirstan_plugin, src/plugin/groupNormPlugin/groupNormPlugin.cpp: `num_groups`, `eps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import silu, unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    wide,
)

_DIFFUSION_GROUPS = 32

_NAMES = ("GroupNormalizationPlugin", "GroupNorm", "GroupNormPluginDynamic")


def _settings(node: NodeView) -> Mapping[str, Any] | Refusal:
    """groups, epsilon and whether SiLU follows."""
    if node.op_type == "GroupNorm":
        given = settings(node, epsilon=1e-5, bSwish=0)
        if isinstance(given, Refusal):
            return given
        return {"groups": _DIFFUSION_GROUPS, "epsilon": given["epsilon"], "silu": bool(given["bSwish"])}
    groups = 1 if node.op_type == "GroupNormalizationPlugin" else int
    given = settings(node, eps=1e-5, num_groups=groups)
    if isinstance(given, Refusal):
        return given
    return {"groups": int(given["num_groups"]), "epsilon": given["eps"], "silu": False}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype, dims = str(node.dtype(0)), node.shape(0)
    if dims is None:
        return unknown(node, 0, "the rank")
    given = _settings(node)
    if isinstance(given, Refusal):
        return given
    groups = given["groups"]
    if len(dims) < 3 or groups < 1 or (dims[1] is not None and dims[1] % groups):
        shown = "x".join("?" if dim is None else str(dim) for dim in dims)
        return Refusal(
            f"its input of shape {shown} has no {groups} groups of channels",
            "an input of shape NxCx... whose number of channels is a multiple of the groups",
            "correct the number of groups where the node is made",
        )
    w = Writer(node)
    data = wide(w, w.x[0], dtype)
    ones, zeros = (w.constant(np.full(groups, value, np.float32)) for value in (1, 0))
    parts = w.Reshape(data, shape=[0, groups, -1])
    unit = w.InstanceNormalization(parts, ones, zeros, epsilon=float(given["epsilon"]))
    normal = w.Reshape(unit, w.shape(data))
    column = [-1, *[1] * (len(dims) - 2)]
    gamma, beta = (w.Reshape(wide(w, w.x[i], node.dtype(i)), shape=column) for i in (1, 2))
    shifted = w.Add(w.Mul(normal, gamma), beta)
    return Replacement(
        w.finish(narrow(w, silu(w, shifted) if given["silu"] else shifted, dtype)),
        f"InstanceNormalization of {groups} groups",
    )


STOCK_GROUP_NORM = NodeRule(
    "stock-group-norm",
    "plugins for group normalisation become InstanceNormalization of groups",
    kinds(*_NAMES),
    checked(dict.fromkeys(_NAMES, PluginPorts(3, floats=(0, 1, 2))), _rewrite),
)

"""Rewrites onnxruntime's own forms of operators that ONNX has: ExpandDims, and Range without a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown_type


def _expand_dims(node: NodeView) -> Replacement | Refusal | None:
    axis = node.constant(1)
    if axis is None:
        fix = f"freeze it: --freeze {node.input(1)}=VALUE"
        return Refusal(f"the axis ({node.input(1)!r}) is computed at run time", "a constant", fix)
    w = Writer(node)
    return Replacement(w.finish(w.Unsqueeze(w.x[0], axes=[int(axis.reshape(-1)[0])])), "Unsqueeze")


def _range(node: NodeView) -> Replacement | Refusal | None:
    """Steps of one where no step is given; otherwise TensorRT takes the node for ONNX's."""
    if node.input(2):
        return None
    dtype = node.dtype(0)
    if dtype is None:
        return unknown_type(node)
    w = Writer(node)
    return Replacement(w.finish(w.Range(*w.x[:2], np.array(1, dtype))), "Range with a step of one")


_BODIES: Mapping[str, Callable[[NodeView], Replacement | Refusal | None]] = {
    "ExpandDims": _expand_dims,
    "Range": _range,
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    return _BODIES[node.op_type](node)


CONTRIB_ARRAYS = NodeRule(
    "contrib-arrays",
    "onnxruntime's ExpandDims and Range become ONNX's",
    tuple(f"com.microsoft::{name}" for name in _BODIES),
    _rewrite,
)

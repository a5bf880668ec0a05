"""Rewrites NonZero with a known number of results: of a constant, or with a size that the model declares.

Other nodes stay as they are for TensorRT, which has a layer, and become a plugin for TensorRT-RTX.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.selection.compress import positions
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("NonZero")


@node_rule("non-zero-plugin", "NonZero", flavour="tensorrt_rtx")
def non_zero_plugin_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites NonZero as a plugin."""
    dtype = node.dtype(0)
    if node.rank(0) == 0:
        return Refusal(
            f"{node.input(0)!r} is a scalar, whose result has no rows by ONNX's text and one in onnxruntime",
            "a tensor of at least one dimension",
            "give it a dimension before NonZero where the model is exported: torch.atleast_1d(x)",
        )
    if dtype is None or dtype == "string":
        return None
    taken = dtype in TYPE_VARIABLES[PLUGIN.key]
    w = Writer(node)
    data = w.x[0] if taken else w.Cast(w.x[0], to="bool")
    places, _ = plugin_outputs(w, PLUGIN, [data])
    return Replacement(w.finish(places), f"plugin {PLUGIN.name}")


@node_rule("non-zero", "NonZero")
def non_zero_rule(node: NodeView) -> Replacement | None:
    """Rewrites NonZero with a known number of results."""
    value = node.constant(0)
    if value is not None:
        found = np.array(np.nonzero(np.atleast_1d(value)), np.int64)
        return Replacement(Writer(node).finish(found), "a constant")
    declared, rank = node.output_shape(0), node.rank(0)
    count = declared[1] if declared and len(declared) == 2 else None
    if count is None or not rank:
        return None
    w = Writer(node)
    if 0 in (node.shape(0) or ()):
        # No position is there to be divided by an empty dimension's size.
        return Replacement(w.finish(np.zeros((rank, count), np.int64)), "an empty tensor has none")
    position = positions(w, w.Reshape(w.Cast(w.x[0], to="bool"), shape=[-1]), count)
    shape = w.Shape(w.x[0])
    # From the innermost dimension outwards: what is left of the position modulo the size, then divided by it.
    rows: list[Value] = []
    for axis in range(rank - 1, -1, -1):
        size = w.Gather(shape, axis, axis=0)
        rows.insert(0, w.Unsqueeze(w.Mod(position, size), axes=[0]))
        position = w.Div(position, size)
    return Replacement(
        w.finish(w.Concat(*rows, axis=0)),
        f"the {count} positions that the model declares",
        numerics=f"the model declares {counted(count, 'element')} other than zero: more are cut off, fewer get zeros",
    )

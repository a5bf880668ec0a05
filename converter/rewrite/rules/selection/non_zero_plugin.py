"""NonZero of a number of results that only a run tells, by our plugin: TensorRT-RTX has no layer for it."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import write_plugin
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.ops.non_zero_positions import NON_ZERO_POSITIONS


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if dtype is None or dtype == "string" or node.rank(0) == 0:
        return None  # what a scalar gives, ONNX says in two ways
    taken = dtype in TYPE_VARIABLES[NON_ZERO_POSITIONS.key]
    w = Writer(node)
    data = w.do("Identity", "x0") if taken else w.cast("x0", "bool")
    write_plugin(w, ["y0", "count"], NON_ZERO_POSITIONS, [data])
    return Replacement(w.nodes(), f"plugin {NON_ZERO_POSITIONS.name}")


_VALUES = (np.arange(24).reshape(3, 2, 4) % 5 == 3) * -0.5

NON_ZERO_PLUGIN = NodeRule(
    "non-zero-plugin",
    "NonZero by a plugin",
    ("NonZero",),
    _rewrite,
    (
        Example(
            "then gathered",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 2, 4] x) => (int64[3, n] y, float[n] z) {
                y = NonZero (x)
                rows = Transpose <perm = [1, 0]> (y)
                z = GatherND (x, rows)
            }""",
            feeds={"x": _VALUES.astype(np.float32)},
        ),
        Example(
            "bool, its size read",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (bool[24] x, float[24, 3] table) => (int64[2] sizes, float[n, 3] y) {
                found = NonZero (x)
                at = Squeeze <axes = [0]> (found)
                sizes = Shape (found)
                y = Gather (table, at)
            }""",
            feeds={"x": _VALUES.reshape(-1) != 0},
        ),
        Example(
            "uint8, nothing found",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (uint8[3, 4] x) => (int64[2, n] y) { y = NonZero (x) }""",
            feeds={"x": np.zeros((3, 4), np.uint8)},
        ),
    ),
)

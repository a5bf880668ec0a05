"""Compress by a condition that only a run tells, by our plugin: no TensorRT has a layer for it."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import (
    as_element,
    is_element,
    write_from_element,
    write_plugin,
)
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.ops.selected_slices import SELECTED_SLICES


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    axis = 0 if flat else int(node.attributes["axis"])
    w = Writer(node)
    element = as_element(w, "x0", dtype)
    data = w.reshape(element, [-1]) if flat else w.do("Identity", element)
    write_plugin(w, ["output", "count"], SELECTED_SLICES, [data, "x1"], {"axis": axis})
    write_from_element(w, "y0", "output", dtype)
    return Replacement(w.nodes(), f"plugin {SELECTED_SLICES.name}")


_SOME = np.array([True, False, False, True])


def _example(name: str, dtype: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}[4, 3] x, bool[4] c) => ({dtype}[n, 3] y) {{ y = Compress <axis = 0> (x, c) }}""",
        feeds={"c": _SOME},
    )


COMPRESS_PLUGIN = NodeRule(
    "compress-plugin",
    "Compress by a plugin",
    ("Compress",),
    _rewrite,
    (
        Example(
            "all elements, a computed condition",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[3, 5] x, float[3, 5] z) => (float[n] y) {
                positive = Greater (x, z)
                flat = Constant <value = int64[1] {-1}> ()
                c = Reshape (positive, flat)
                y = Compress (x, c)
            }""",
        ),
        Example(
            "last axis, then more",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float16[2, 3, 4] x, bool[4] c, float16[2, 3, 1] z) => (float16[2, 3, n] y) {
                some = Compress <axis = -1> (x, c)
                y = Mul (some, z)
            }""",
            feeds={"c": _SOME},
        ),
        _example("bool", "bool"),
        _example("int8, none", "int8"),
        _example("uint8", "uint8"),
        _example("int64", "int64"),
    ),
)

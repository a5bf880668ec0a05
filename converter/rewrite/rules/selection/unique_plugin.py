"""Unique of a number of results that only a run tells, by our plugin: no TensorRT has a layer for it."""

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
from trtsmith.importers.ops.unique_slices import UNIQUE_SLICES


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    fields = {
        "axis": 0 if flat else int(node.attributes["axis"]),
        "sorted": int(node.attributes.get("sorted", 1)),
    }
    w = Writer(node)
    element = as_element(w, "x0", dtype)
    data = w.reshape(element, [-1]) if flat else w.do("Identity", element)
    indices = [f"y{i}" if node.used(i) else f"unread_{i}" for i in (1, 2, 3)]
    write_plugin(w, ["output", *indices, "count"], UNIQUE_SLICES, [data], fields)
    if node.used(0):
        write_from_element(w, "y0", "output", dtype)
    return Replacement(w.nodes(), f"plugin {UNIQUE_SLICES.name}")


def _example(name: str, dtype: str, attributes: str, values: np.ndarray, shape: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}[{", ".join(map(str, values.shape))}] x) => (
            {dtype}[{shape}] y, int64[n] at, int64[m] inverse, int64[n] counts
        ) {{
            y, at, inverse, counts = Unique <{attributes}> (x)
        }}""",
        feeds={"x": values},
        reference=dtype == "bool",  # for which onnxruntime has no Unique
    )


_VALUES = np.array([[2, -1, 5, 2], [5, 5, 0, -7], [3, 2, 0, 9], [2, -1, 5, 2], [5, 5, 0, -7]])

UNIQUE_PLUGIN = NodeRule(
    "unique-plugin",
    "Unique by a plugin",
    ("Unique",),
    _rewrite,
    (
        _example("all elements", "float", "sorted = 1", _VALUES.astype(np.float32) / 4, "n"),
        _example("in the order given", "int64", "sorted = 0", _VALUES, "n"),
        _example("rows", "float", "axis = 0", _VALUES.astype(np.float32), "n, 4"),
        _example("columns in the order given", "int64", "axis = -1, sorted = 0", _VALUES, "5, n"),
        _example("int8", "int8", "axis = 0", _VALUES.astype(np.int8), "n, 4"),
        _example("double", "double", "axis = 0", _VALUES / 4, "n, 4"),
        _example("bool", "bool", "axis = 0", _VALUES > 2, "n, 4"),
        Example(
            "values alone, read on",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int64[2, 3] x, float[10, 4] table) => (float[n, 4] y) {
                kinds = Unique (x)
                y = Gather <axis = 0> (table, kinds)
            }""",
            feeds={"x": np.array([[7, 1, 7], [0, 1, 9]])},
        ),
    ),
)

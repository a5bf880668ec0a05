"""Measures the largest magnitude of every value in a float32 run in onnxruntime.

Each magnitude is computed inside the graph, next to its value, so that memory holds hardly more than in an ordinary run:
no intermediate result is an output.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run

_MAGNITUDE_OPSET = 11
"""From here on the operators that magnitudes are written in are the same."""


def magnitudes(model: Model, feeds: Mapping[str, np.ndarray]) -> dict[str, float] | None:
    """The largest finite magnitude of every float32 value of the outermost graph, by name; infinities count as none.

    model: without plugin nodes (trtsmith.converter.rewrite.rewrite.expand). None if onnxruntime does not run it.
    """
    model = infer_shapes(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset < _MAGNITUDE_OPSET:
        return None
    names = FreshNames.of(proto)
    graph = proto.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    seen = [v.name for v in graph.input if types[v.name] == T.FLOAT]
    seen += [name for node in graph.node for name in node.output if types.get(name) == T.FLOAT]
    if not seen:
        return {}
    constants: dict[str, np.ndarray] = {
        "zero": np.zeros(1, np.float32),
        "infinity": np.array(np.inf, np.float32),
        "flat": np.array([-1], np.int64),
    }
    known = {key: names.value(f"magnitude/{key}") for key in constants}
    graph.initializer.extend(numpy_helper.from_array(array, known[key]) for key, array in constants.items())
    results = {name: names.value(f"magnitude/{name}") for name in seen}
    nodes = [
        step for v in graph.input if v.name in results for step in _magnitude(v.name, results, known, names)
    ]
    for node in graph.node:
        nodes.append(node)
        for name in node.output:
            if name in results:
                nodes.extend(_magnitude(name, results, known, names))
    del graph.node[:], graph.output[:]
    graph.node.extend(nodes)
    graph.output.extend(helper.make_tensor_value_info(result, T.FLOAT, []) for result in results.values())
    try:
        found = run(model.with_proto(proto), feeds, in_order=True)
    except ConversionError:
        return None
    return {name: float(found[result]) for name, result in results.items()}


def _magnitude(
    name: str, results: Mapping[str, str], known: Mapping[str, str], names: FreshNames
) -> list[onnx.NodeProto]:
    """max |x| over the finite elements and zero, so that an empty tensor has one."""
    result = results[name]
    steps = ("size", "flat", "with_zero", "finite", "counted")
    size, flat, joined, finite, counted = (names.value(f"{result}/{step}") for step in steps)
    return [
        helper.make_node("Abs", [name], [size]),
        helper.make_node("Reshape", [size, known["flat"]], [flat]),
        helper.make_node("Concat", [flat, known["zero"]], [joined], axis=0),
        helper.make_node("Less", [joined, known["infinity"]], [finite]),  # neither infinite nor NaN
        helper.make_node("Where", [finite, joined, known["zero"]], [counted]),
        helper.make_node("ReduceMax", [counted], [result], keepdims=0),
    ]

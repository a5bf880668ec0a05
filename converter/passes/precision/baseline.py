"""The error that a precision costs anyway: what a framework loses that computes a whole network in it.

A framework's half run has every value, weights among them, in the type; products are summed in float32. The float32
graph with every value rounded shows that error, without a framework and for any ONNX model
(tests/converter/passes/precision holds it against PyTorch's own runs).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper

from converter.errors import ConversionError
from converter.infer import infer_shapes, value_types
from converter.modelfile.model import Model
from converter.modelfile.ort import run
from converter.passes.fresh_names import FreshNames
from converter.passes.precision.formats import Format
from converter.passes.precision.opset import BF16_OPSET, at_least
from converter.passes.scopes import all_graphs

Arrays = Mapping[str, np.ndarray]


def all_rounded(model: Model, fmt: Format) -> Model:
    """A float32 model (no plugin nodes) whose every float32 value of the outermost graph, weights too, is rounded."""
    model = infer_shapes(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    types = {name: entry.elem_type for name, entry in value_types(proto).items()}
    names = FreshNames()
    for graph in all_graphs(proto.graph):
        names.take(v.name for v in (*graph.input, *graph.initializer))
        for node in graph.node:
            names.take(node.output)
    made: list[onnx.NodeProto] = []
    fresh: dict[str, str] = {}
    given = {v.name for v in (*proto.graph.input, *proto.graph.initializer) if types.get(v.name) == T.FLOAT}
    for node in proto.graph.node:
        for index, name in enumerate(node.input):
            if name in given and name not in fresh:  # where it is first read, so that few are held at a time
                fresh[name] = names.value(f"{name}/rounded")
                made.extend(_rounding(names, name, fresh[name], fmt))
            node.input[index] = fresh.get(name, name)
        results = [(i, n) for i, n in enumerate(node.output) if types.get(n) == T.FLOAT]
        made.append(node)
        for index, name in results:
            node.output[index] = names.value(f"{name}/exact")
            made.extend(_rounding(names, node.output[index], name, fmt))
    del proto.graph.node[:]
    proto.graph.node.extend(made)
    return model.with_proto(proto)


def _rounding(names: FreshNames, source: str, target: str, fmt: Format) -> list[onnx.NodeProto]:
    narrow = names.value(f"{target}/narrow")
    return [
        helper.make_node("Cast", [source], [narrow], to=fmt.elem),
        helper.make_node("Cast", [narrow], [target], to=T.FLOAT),
    ]


def intrinsic_errors(model: Model, feeds: Arrays, expected: Arrays, fmt: Format) -> dict[str, float]:
    """By output, ||rounded - expected|| / ||expected||, or the share of whole numbers that differ.

    Outputs that are not finite, have another shape or cannot be had are left out.
    """
    try:
        actual = run(all_rounded(at_least(model, BF16_OPSET), fmt), feeds, optimise=False, in_order=True)
    except ConversionError:
        return {}
    errors = {}
    for name, reference in expected.items():
        if name not in actual or actual[name].shape != reference.shape or not reference.size:
            continue
        if reference.dtype.kind in "iub":
            errors[name] = float(np.mean(actual[name] != reference))
            continue
        exact = reference.astype(np.float64)
        with np.errstate(all="ignore"):
            norm = float(np.linalg.norm(exact))
            error = float(np.linalg.norm(actual[name].astype(np.float64) - exact))
        if norm > 0 and np.isfinite(error) and np.isfinite(norm):
            errors[name] = error / norm
    return errors

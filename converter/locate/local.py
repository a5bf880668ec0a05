"""The error that one node makes by itself: its outputs against onnxruntime's for the very inputs that it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx

from converter.locate.executor import Arrays, Executor, Onnxruntime
from converter.locate.graph import GraphView
from converter.locate.probe import Value
from converter.locate.region import Region, region_model
from converter.modelfile.model import Model
from converter.passes.scopes import all_graphs
from converter.verify import Comparison, compare

PRODUCTS = frozenset(
    {
        "Attention", "Conv", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN",
        "ModulatedDeformableConvolution", "DeformableConvolution",
    }
)  # fmt: skip
"""Operators of which TensorRT rounds float32 operands to TF32."""

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that give other numbers each time: no error can be told by them."""

TF32_FACTOR = 2.0
"""Error allowed, over that which operands in TF32 alone make: an engine may add in another order, too."""


def local_errors(
    view: GraphView, region: Region, given: Arrays, values: Mapping[str, Value], executor: Executor
) -> tuple[Comparison, ...]:
    """The region's outputs in `given` against onnxruntime's from its inputs in `given`; () for random operators.

    executor: what made `given`. Where that multiplies in TF32, a product may be as far off as TF32_FACTOR times what
    operands in TF32 do to it.
    """
    nodes = [view.nodes[i] for i in region.nodes]
    if any(node.op_type in RANDOM for node in nodes):
        return ()
    model = region_model(view, region, given, [values[name].info() for name in region.outputs])
    inputs = {name: given[name] for name in region.inputs}
    outputs = {name: given[name] for name in region.outputs}
    expected = Onnxruntime().execute(model, inputs)
    found = compare({name: expected[name] for name in outputs}, outputs)
    products = any(node.op_type in PRODUCTS for node in nodes)
    if all(c.agrees for c in found) or not (executor.tf32 and products):
        return found
    coarse = Onnxruntime().execute(
        _with_tf32_weights(model), {name: to_tf32(array) for name, array in inputs.items()}
    )
    allowed = {c.output: TF32_FACTOR * c.relative for c in compare(expected, coarse)}
    return tuple(_within(c, allowed[c.output]) for c in found)


def _within(found: Comparison, allowed: float) -> Comparison:
    if found.agrees or not found.max > 0 or found.relative > allowed:
        return found
    reason = f"relative error {found.relative:.1e}; TF32 explains {allowed:.1e}"
    return replace(found, agrees=True, reason=reason)


def to_tf32(array: np.ndarray) -> np.ndarray:
    """float32 cut to 10 bits of mantissa, as tensor cores read their operands; other types as they are.

    Cutting makes about twice the error of rounding, and with all errors to the same side; some kernels round.
    """
    array = np.asarray(array)
    if array.dtype != np.float32:
        return array
    bits = np.ascontiguousarray(array).view(np.uint32)
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(array), cut, array).reshape(array.shape)


def _with_tf32_weights(model: Model) -> Model:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for tensor in _tensors(proto):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = to_tf32(model.array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model.with_proto(proto)


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in all_graphs(proto.graph):
        yield from graph.initializer
        for node in graph.node:
            yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)

"""Lists the operators that onnxruntime computes on the CPU, and those that depend on the number of threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

import onnx

from trtsmith.converter.model.check import iter_graphs, iter_tensors
from trtsmith.importers.registry import OperatorId, normalise_domain

_CPU = "CPUExecutionProvider"
_OF_TENSORRT = "_TRT"
"""onnxruntime has schemas of four TensorRT plugins, for its TensorRT provider, and no kernels of its own."""


@cache
def operators_that_run() -> frozenset[OperatorId]:
    """Returns operators with a CPU kernel, and ONNX functions of such operators, which onnxruntime inlines.

    GroupNorm and some fifty others of com.microsoft have a schema and kernels for GPUs alone: a session with one of them
    ends with NOT_IMPLEMENTED. A build that does not tell its kernels is taken to have one for each schema.
    """
    import onnxruntime.capi.onnxruntime_pybind11_state as ort_state  # what is only rewritten does without it

    schemas = {(normalise_domain(s.domain), s.name) for s in ort_state.get_all_operator_schema()}
    named = frozenset(kind for kind in schemas if not kind[1].endswith(_OF_TENSORRT))
    kernels = getattr(ort_state, "get_all_opkernel_def", None)
    if kernels is None:
        return named
    found = {(normalise_domain(k.domain), k.op_name) for k in kernels() if k.provider == _CPU}
    return frozenset(kind for kind in named if kind in found or (not kind[0] and _is_onnx(kind[1])))


@cache
def without_kernel(domain: str, op_type: str) -> bool:
    """Tells whether onnxruntime knows the operator but has no CPU kernel for it."""
    import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

    kind = normalise_domain(domain), op_type
    if kind in operators_that_run() or op_type.endswith(_OF_TENSORRT):
        return False
    return any(kind == (normalise_domain(s.domain), s.name) for s in ort_state.get_all_operator_schema())


def _is_onnx(op_type: str) -> bool:
    """Whether the operator is Constant, or has a function body in some opset."""
    if op_type == "Constant":
        return True
    schemas: Iterable[Any] = onnx.defs.get_all_schemas_with_history()
    return any(
        s.has_function or s.has_context_dependent_function
        for s in schemas
        if not s.domain and s.name == op_type
    )


_SPLIT_BY_THREADS = frozenset({("com.microsoft", "DynamicQuantizeLSTM")})
"""Operators whose kernel gives each thread a part of the batch, and quantizes each part by itself: seen in onnxruntime 1.31,
whose results for a batch of 2 are off by 2e-3 with two threads. With one thread the batch is one part."""


def depends_on_threads(graph: onnx.GraphProto) -> bool:
    """Tells whether the results of any node, including subgraphs, depend on the number of threads."""
    return not _SPLIT_BY_THREADS.isdisjoint(_kinds(graph))


def quantised(proto: onnx.ModelProto) -> frozenset[OperatorId]:
    """Returns the model's operators on quantized values."""
    return frozenset(
        (domain, op_type)
        for graph in (proto.graph, *proto.functions)
        for domain, op_type in _kinds(graph)
        if "Quantize" in op_type or op_type.startswith("QLinear") or op_type.endswith("Integer")
    )


def holds_bfloat16(proto: onnx.ModelProto) -> bool:
    """Tells whether the model has bfloat16 values, for which onnxruntime has few CPU kernels besides Cast."""
    return holds_any(proto, {onnx.TensorProto.BFLOAT16})


def holds_any(proto: onnx.ModelProto, kinds: Collection[int]) -> bool:
    """Tells whether an input, output, tensor or attribute has one of these element types."""
    values = (*proto.graph.input, *proto.graph.output)
    return (
        any(value.type.tensor_type.elem_type in kinds for value in values)
        or any(tensor.data_type in kinds for tensor, _ in iter_tensors(proto))
        or any(
            attribute.name in ("to", "dtype", "output_dtype") and attribute.i in kinds
            for graph in (*iter_graphs(proto.graph), *proto.functions)
            for node in graph.node
            for attribute in node.attribute
        )
    )


def _kinds(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[OperatorId]:
    """The domain and op_type of every node, including subgraphs."""
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _kinds(inner)

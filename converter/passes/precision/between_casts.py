"""Nodes of a reduced network that are computed in float32 between Casts: what is around them stays reduced.

Products of float16, when --fp32-sums asks for it, as a framework sums them. How they are summed is TensorRT's choice in a
strongly typed network. Measured on an H200 with TensorRT-RTX 1.6.1: matrix products and convolutions sum in float16; their
error grows as the root of the number of terms, and is that of bfloat16 at some 4,000. Between Casts from and to float16 the
products are exact and the sum is float32. TensorRT-RTX makes one kernel of a matrix product and its Casts, as fast as
without; convolutions then run in TF32, in twice the time.

Gates, always: products of an image with one number for each channel, as squeeze-and-excitation has them. TensorRT-RTX 1.6.1
makes one kernel of such a gate and the depthwise convolution before it; for dynamic shapes it has none, and fails when it
runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper

from converter.passes.fresh_names import FreshNames
from converter.passes.precision.formats import FP16, Format
from converter.passes.scopes import Node, all_graphs

PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum"})

_SPATIAL = 2
"""The first axis behind batch and channels."""


def products(reduced: Mapping[Node, bool], fmt: Format) -> set[str]:
    """Names of the reduced nodes whose sums can be made float32. Only of float16: bfloat16 has no narrower sums."""
    if fmt is not FP16:
        return set()
    return {n.proto.name for n, small in reduced.items() if small and not n.domain and n.op_type in PRODUCTS}


def gates(reduced: Mapping[Node, bool]) -> set[str]:
    """Names of the reduced nodes that scale the channels of an image by values of one pixel."""
    return {n.proto.name for n, small in reduced.items() if small and _is_gate(n)}


def _is_gate(node: Node) -> bool:
    if node.domain or node.op_type != "Mul" or any(node.scope.is_constant(name) for name in node.inputs):
        return False
    shapes = [node.scope.dims(name) for name in node.inputs]
    if any(dims is None or len(dims) <= _SPATIAL for dims in shapes):
        return False
    one_pixel = [all(size == 1 for size in dims[_SPATIAL:]) for dims in shapes if dims is not None]
    return sorted(one_pixel) == [False, True]


def put_between_casts(proto: onnx.ModelProto, chosen: Collection[str], fmt: Format, names: FreshNames) -> int:
    """Changes the graphs in place, and counts the Casts. chosen: names of nodes whose inputs and outputs are in `fmt`."""
    casts = 0
    for graph in all_graphs(proto.graph) if chosen else ():
        made = [new for node in graph.node for new in _widened(node, chosen, fmt, names)]
        casts += len(made) - len(graph.node)
        del graph.node[:]
        graph.node.extend(made)
    return casts


def _widened(
    node: onnx.NodeProto, chosen: Collection[str], fmt: Format, names: FreshNames
) -> Iterable[onnx.NodeProto]:
    """The node between its Casts. Each has Casts of its own, so that every one is a pattern by itself."""
    if node.name not in chosen:
        yield node
        return
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for index, name in enumerate(node.input):
        if name:
            wide.input[index] = names.value(f"{name}/wide")
            yield _cast(name, wide.input[index], T.FLOAT, names)
    wide.output[0] = names.value(f"{node.output[0]}/exact")
    yield wide
    yield _cast(wide.output[0], node.output[0], fmt.elem, names)


def _cast(source: str, target: str, to: int, names: FreshNames) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], names.node(f"{target}/Cast"), to=to)

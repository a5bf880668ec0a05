"""Products of float16 that are summed in float32: Casts around them, as a framework sums them.

How a float16 product is summed is TensorRT's choice in a strongly typed network. Measured on an H200 with TensorRT-RTX
1.6.1: matrix products and convolutions sum in float16; their error grows as the root of the number of terms, and is that of
bfloat16 at some 4,000. Between Casts from and to float16 the products are exact and the sum is float32. TensorRT-RTX makes
one kernel of a matrix product and its Casts, as fast as without; convolutions then run in TF32, in twice the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
from onnx import TensorProto as T
from onnx import helper

from converter.passes.fresh_names import FreshNames
from converter.passes.precision.formats import FP16, Format
from converter.passes.scopes import Node, all_graphs

PRODUCTS = frozenset({"Conv", "MatMul", "Gemm", "Einsum"})
"""A ConvTranspose sums in float32 anyway, as measured."""


def products(reduced: Mapping[Node, bool], fmt: Format) -> set[str]:
    """Names of the reduced nodes whose sums can be made float32. Only of float16: bfloat16 has no narrower sums."""
    if fmt is not FP16:
        return set()
    return {n.proto.name for n, small in reduced.items() if small and not n.domain and n.op_type in PRODUCTS}


def sum_in_float32(proto: onnx.ModelProto, chosen: Collection[str], fmt: Format, names: FreshNames) -> int:
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
            wide.input[index] = names.value(f"{name}/exact")
            yield _cast(name, wide.input[index], T.FLOAT, names)
    wide.output[0] = names.value(f"{node.output[0]}/sum")
    yield wide
    yield _cast(wide.output[0], node.output[0], fmt.elem, names)


def _cast(source: str, target: str, to: int, names: FreshNames) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], names.node(f"{target}/Cast"), to=to)

"""Nodes of a reduced network that are computed in float32 between Casts: what is around them stays reduced.

Products of float16, when --fp32-sums asks for it, as a framework sums them. How they are summed is TensorRT's choice in a
strongly typed network. Measured on an H200 with TensorRT-RTX 1.6.1: matrix products and convolutions sum in float16; their
error grows as the root of the number of terms, and is that of bfloat16 at some 4,000. Between Casts from and to float16 the
products are exact and the sum is float32. TensorRT-RTX makes one kernel of a matrix product and its Casts, as fast as
without; convolutions then run in TF32, in twice the time. A BatchNormalization behind a convolution joins it: TensorRT folds
one into the other, and networks with a Cast between the two were wrong.

Gates, always: products of an image with one number for each channel, as squeeze-and-excitation has them. TensorRT-RTX 1.6.1
makes one kernel of such a gate and the depthwise convolution before it; for dynamic shapes it has none, and fails when it
runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto as T
from onnx import helper

from converter.passes.fresh_names import FreshNames
from converter.passes.precision.formats import FP16, Format
from converter.passes.precision.ports import Ports
from converter.passes.scopes import Node, all_graphs

PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum"})
NORM = "BatchNormalization"

_SPATIAL = 2
"""The first axis behind batch and channels."""


@dataclass(frozen=True)
class BetweenCasts:
    """What is chosen, by node name.

    casts:    the inputs that come from the reduced type.
    joined:   those whose result goes on in float32, to a node that reads it in float32 and nobody else does.
    products: how many products are among them.
    """

    casts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    products: int = 0


def between_casts(
    order: Sequence[Node], ports: Mapping[Node, Ports], reduced: Mapping[Node, bool], fmt: Format, sums: bool
) -> BetweenCasts:
    """order: all nodes. ports: what can be reduced of a node. sums: --fp32-sums, which is for float16 alone: tensor cores
    sum products of bfloat16 in float32."""
    small = [node for node in order if reduced.get(node, False) and not node.domain]
    products = [node for node in small if node.op_type in PRODUCTS] if sums and fmt is FP16 else []
    casts = {node.proto.name: ports[node].inputs for node in (*products, *filter(_is_gate, small))}
    norms = {(n.scope, n.inputs[0]): n for n in small if n.op_type == NORM and len(n.outputs) == 1}
    readers = Counter((n.scope.holder(name), name) for n in order for name in n.inputs if name)
    joined = set()
    for node in products:
        made = (node.scope, node.outputs[0])
        if made in norms and readers[made] == 1 and node.outputs[0] not in node.scope.outputs:
            norm = norms[made]
            casts[norm.proto.name] = tuple(i for i in ports[norm].inputs if i)
            joined.add(node.proto.name)
    return BetweenCasts(casts, frozenset(joined), len(products))


def _is_gate(node: Node) -> bool:
    if node.domain or node.op_type != "Mul" or any(node.scope.is_constant(name) for name in node.inputs):
        return False
    shapes = [node.scope.dims(name) for name in node.inputs]
    if any(dims is None or len(dims) <= _SPATIAL for dims in shapes):
        return False
    one_pixel = [all(size == 1 for size in dims[_SPATIAL:]) for dims in shapes if dims is not None]
    return sorted(one_pixel) == [False, True]


def put_between_casts(proto: onnx.ModelProto, chosen: BetweenCasts, fmt: Format, names: FreshNames) -> int:
    """Changes the graphs in place, and counts the Casts."""
    casts = 0
    for graph in all_graphs(proto.graph) if chosen.casts else ():
        exact: dict[str, str] = {}  # what goes on in float32, by its old name
        made = [new for node in graph.node for new in _widened(node, chosen, fmt, names, exact)]
        casts += len(made) - len(graph.node)
        del graph.node[:]
        graph.node.extend(made)
    return casts


def _widened(
    node: onnx.NodeProto, chosen: BetweenCasts, fmt: Format, names: FreshNames, exact: dict[str, str]
) -> Iterable[onnx.NodeProto]:
    """The node between its Casts. Each has Casts of its own, so that every one is a pattern by itself."""
    if node.name not in chosen.casts:
        yield node
        return
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for index in chosen.casts[node.name]:
        if node.input[index]:
            wide.input[index] = names.value(f"{node.input[index]}/wide")
            yield _cast(node.input[index], wide.input[index], T.FLOAT, names)
    wide.input[0] = exact.get(node.input[0], wide.input[0])
    wide.output[0] = names.value(f"{node.output[0]}/exact")
    yield wide
    if node.name in chosen.joined:
        exact[node.output[0]] = wide.output[0]
    else:
        yield _cast(wide.output[0], node.output[0], fmt.elem, names)


def _cast(source: str, target: str, to: int, names: FreshNames) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], names.node(f"{target}/Cast"), to=to)

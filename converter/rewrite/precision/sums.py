"""Counts the products that a node sums for each value of its result, and limits this count in a reduced type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import ceil, gcd, prod
from typing import Any

from onnx import helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import all_scopes
from trtsmith.converter.graph.tensor_types import Dim
from trtsmith.converter.graph.walk import elem_types
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.formats import FP16, Format
from trtsmith.converter.rewrite.target import Fault, Target

LONG_SUM = "a sum of many products, for which TensorRT-RTX has float16 and no more"

OFF_SUM = "its sum in float16 would put an output further off than is allowed"

ACCUMULATE = ("auto", "fp32", "fp16")
"""--accumulate: the type in which products of float16 are summed, where TensorRT has a choice of none but float16.

auto: float32 for the nodes of which the outputs need it. fp32: for those of more than LONGEST products. fp16: for none.
"""

FLOAT16_SUMS = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "sums products of float16 in float16; those of bfloat16 and TF32 in float32",
    "engines run on an H200 (scripts/gpucheck/product_sums.py)",
)

LONGEST = 256
"""How many products of float16 `--accumulate fp32` lets a node sum in float16.

The error grows as the root of the number of products: this is about where it is twice that of a framework, which rounds two
factors and the result.
"""


def longest_sum(target: Target, fmt: Format) -> int | None:
    """Returns the most products that a node may sum in the type; None: no limit."""
    return LONGEST if fmt is FP16 and FLOAT16_SUMS.concerns(target) else None


def sums_more_than(node: Node, longest: int) -> bool:
    """Tells whether the node sums more products than that. Nodes with an unknown number do."""
    if node.domain or node.op_type not in _SUMMED:
        return False
    count = products(node)
    return count is None or count > longest


def is_sum(node: Node) -> bool:
    """Tells whether the node sums products."""
    return not node.domain and node.op_type in _SUMMED


def summing_nodes(model: Model) -> tuple[str, ...]:
    """Names nodes that sum float16 products: unknown counts first, then the largest.

    Types are inferred.
    """
    counts = [
        (products(node) or _UNKNOWN_COUNT, node.proto.name)
        for scope in all_scopes(Graph(model).root)
        for node in scope.nodes
        if is_sum(node) and scope.elem_type(node.outputs[0]) == FP16.elem
    ]
    return tuple(name for _, name in sorted(counts, key=lambda one: -one[0]))


def own_long_sums(model: Model, target: Target) -> tuple[str, ...]:
    """Finds nodes of a float16 model that sum more products than the target does accurately, by name or result.

    Types are inferred.
    """
    return () if longest_sum(target, FP16) is None else long_sums(model)


def long_sums(model: Model) -> tuple[str, ...]:
    """Finds nodes that sum more than LONGEST products of float16, or an unknown number."""
    if FP16.elem not in elem_types(model.proto.graph):
        return ()
    return tuple(
        node.proto.name or node.outputs[0]
        for scope in all_scopes(Graph(model).root)
        for node in scope.nodes
        if any(scope.elem_type(name) == FP16.elem for name in node.outputs) and sums_more_than(node, LONGEST)
    )


def reduced_share(reduced: Mapping[Node, bool], whole: Collection[Node]) -> float | None:
    """Returns the share of a quantized network's products in the reduced type; None if plugins compute in it too.

    whole: nodes that add up products of whole numbers. Sizes that are not known count as 1.
    """
    if not whole or any(there and node.domain for node, there in reduced.items()):
        return None
    gained = sum(_work(node) for node, there in reduced.items() if there and is_sum(node))
    return gained / (gained + sum(map(_work, whole)))


def _work(node: Node) -> int:
    """Products that the node computes, for results of one if their sizes are not known."""
    dims = node.scope.dims(node.outputs[0]) or ()
    return (products(node) or 1) * prod(size for size in dims if isinstance(size, int) and size)


def products(node: Node) -> int | None:
    """Counts the products that each result value sums; None if shapes do not tell."""
    shapes = [node.scope.dims(name) if name else None for name in node.inputs]
    shapes += [None] * (_MOST_READ - len(shapes))  # those that a broken model lacks
    given = {a.name: helper.get_attribute_value(a) for a in node.proto.attribute}
    sizes = _SUMMED[node.op_type](given, shapes)
    known = [n for n in sizes if isinstance(n, int)]
    return prod(known) if len(known) == len(sizes) else None


_UNKNOWN_COUNT = 2**62

_Shapes = list[tuple[Dim, ...] | None]
_UNKNOWN: tuple[Dim, ...] = (None,)
_MOST_READ = 3
"""Inputs whose shapes say something of the number."""

_KERNEL = 2
"""The first axis of a convolution's weights behind outputs and inputs."""


def _conv(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    """Weights are [outputs, inputs of a group, kernel...]."""
    weights = shapes[1]
    return _UNKNOWN if weights is None or len(weights) <= _KERNEL else weights[1:]


def _conv_transpose(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    """Weights are [inputs, outputs of a group, kernel...]; a value sums the taps that a stride leaves to it."""
    weights = shapes[1]
    if weights is None or len(weights) <= _KERNEL or not all(isinstance(n, int) for n in weights):
        return _UNKNOWN
    channels, _, *kernel = (n for n in weights if isinstance(n, int))
    strides, dilations = (given.get(name, [1] * len(kernel)) for name in ("strides", "dilations"))
    groups = given.get("group", 1)
    if min(groups, *strides, *dilations) < 1:
        return _UNKNOWN
    taps = zip(kernel, strides, dilations, strict=False)
    return channels // groups, *(ceil(k / (s // gcd(s, d))) for k, s, d in taps)


def _either(a: Dim, b: Dim) -> tuple[Dim, ...]:
    """The common size of two shapes, of which one may be unknown."""
    return (a if isinstance(a, int) else b,)


def _size(shape: tuple[Dim, ...] | None, axis: int) -> Dim:
    return shape[axis] if shape and axis < len(shape) else None


def _matmul(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    a, b = shapes[:2]
    return _either(_size(a, -1), _size(b, max(len(b or ()) - 2, 0)))


def _gemm(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    a, b = shapes[:2]
    return _either(_size(a, 0 if given.get("transA") else 1), _size(b, 1 if given.get("transB") else 0))


def _einsum(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    """The sizes of the letters that the result has not; what "..." stands for it has."""
    factors, arrow, result = given.get("equation", b"").decode().replace(" ", "").partition("->")
    sizes: dict[str, Dim] = {}
    for factor, dims in zip(factors.split(","), shapes, strict=False):
        first, _, last = factor.partition("...")
        for names, along in ((first, dims or ()), (last[::-1], (dims or ())[::-1])):
            sizes.update((c, n) for c, n in zip(names, along, strict=False) if isinstance(n, int))
    letters = dict.fromkeys(c for c in factors if c.isalpha())
    return tuple(sizes.get(c) for c in letters if (c not in result if arrow else factors.count(c) > 1))


def _recurrent(given: Mapping[str, Any], shapes: _Shapes) -> tuple[Dim, ...]:
    """W is [directions, gates, inputs] and R [directions, gates, hidden]: a gate sums over both."""
    inputs, hidden = (_size(shape, -1) for shape in shapes[1:3])
    return (inputs + hidden,) if isinstance(inputs, int) and isinstance(hidden, int) else _UNKNOWN


_SUMMED: Mapping[str, Callable[[Mapping[str, Any], _Shapes], tuple[Dim, ...]]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}
"""Of each operator, sizes whose product is the number of products that one value of its result sums."""

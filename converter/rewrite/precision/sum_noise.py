"""Adds noise to a graph that emulates TensorRT-RTX's float16 sums in onnxruntime.

A tensor core's instruction sums 16 products, and the sum so far is rounded to float16 after each. Of a sum of n products
that is n / 16 roundings of partial sums whose squares grow evenly: together n / 32 + 1 / 2 times the variance of rounding
the result. So written, a network of a hundred convolutions had ten thousand; here its results get normally distributed
noise of that variance instead, the same in every run. A sum's way from zero to its result is a random walk that is known at
both ends: the mean square of its partial sums is a third of the result's square and a sixth of the sum of the products'
squares, half of which it would be where nothing cancels. Measured (docs/evidence/gpu-engines.md, sums of products), as the
root: 1.6 times the error of rounding at 64 products, 2.9 at 256, 5.6 at 1,024, 8.3 at 2,304; this gives 1.6, 2.9, 5.7, 8.5.
Of whole networks on an H200, models.geometry was off by 4.1e-3 and LayoutLMv3 by 1.4e-3; so emulated 4.7e-3 and 1.3e-3.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import all_scopes
from trtsmith.converter.graph.walk import all_graphs, refill, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.precision.sums import LONGEST, is_sum, products
from trtsmith.converter.rewrite.profile.decisions import decide_by_profile
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of, with_fixed_sizes

ROUNDING = 2.1e-4
"""Norm of the error of rounding values to float16 by that of the values. Measured with the sums."""

_AT_ONCE = 16
"""Products that one instruction sums without rounding."""

_CHANNELS = 8
"""A convolution of fewer channels sums zeros in place of those that are missing, and rounds as often as with them.

Seen on an H200: a patch embedding of 3 x 16 x 16 products is off by 1.75e-3, as a sum of 2,048 would be.
"""

_MATRIX = 2
"""Dimensions of what has rows and columns."""

_AXES_INPUT = 18
"""The first opset in which the axes of ReduceMean are an input."""

_CHANNEL_FIRST = frozenset({"Conv", "ConvTranspose"})
"""Operators whose results have their channels in axis 1; of others these are the last axis."""


_Nodes = Generator[onnx.NodeProto, None, str]
"""Nodes to insert; returns the value that they compute."""


class Summed(NamedTuple):
    """A model with noisy sums. sums: values not rounded before the noise is added
    (converter/rewrite/precision/emulate.py).
    """

    model: Model
    sums: frozenset[str]


def with_float16_sums(
    model: Model,
    elem: int = T.FLOAT16,
    exact: Collection[str] = (),
    feeds: Mapping[str, np.ndarray] | None = None,
) -> Summed:
    """Changes sums of products as if summed in float16. Returns the model itself if it has no such sums.

    elem:  type of the results that are so summed: float16, or float32 where Casts behind them round.
    exact: names of nodes whose sums stay as they are.
    feeds: inputs that the graph will be run with, which say how many products a dynamic axis has. A number that nobody
        knows counts as LONGEST.
    """
    sized = _sized(model, feeds or {})
    scales = {
        node.outputs[0]: scale
        for scope in all_scopes(Graph(sized).root)
        for node in scope.nodes
        if is_sum(node)
        and scope.elem_type(node.outputs[0]) == elem
        and node.proto.name not in exact
        and (scale := noise_of(_summed(node))) > 0
    }
    if not scales:
        return Summed(model, frozenset())
    proto = model.copied()
    names = FreshNames.of(proto)
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    ranks = _ranks(sized.proto)
    work = _Noise(scales, ranks, names, elem, opset)
    work.graph(proto.graph)
    return Summed(infer_shapes(model.with_proto(proto)), frozenset(work.sums))


def noise_of(count: int) -> float:
    """Estimates the noise of a float16 sum of this many products, relative to the results' root mean square, before
    rounding.
    """
    variance = count / (2 * _AT_ONCE) + 0.5 - 1.0
    return float(ROUNDING * np.sqrt(max(variance, 0.0)))


def _summed(node: Node) -> int:
    """Products of a sum, with the zeros of channels that are missing."""
    count = products(node) or LONGEST
    weights = node.scope.dims(node.inputs[1]) if node.op_type == "Conv" else None
    channels = weights[1] if weights is not None and len(weights) > 1 else None
    grouped = any(a.name == "group" and a.i > 1 for a in node.proto.attribute)
    if grouped or not isinstance(channels, int) or not 0 < channels < _CHANNELS:
        return count
    return count * _CHANNELS // channels


def _sized(model: Model, feeds: Mapping[str, np.ndarray]) -> Model:
    """The model with the sizes that its inputs have, and those that nodes compute of them where sums depend on these."""
    shapes = {name: array.shape for name, array in feeds.items()}
    ranges = ranges_of([{name: ShapeRange(shape, shape, shape) for name, shape in shapes.items()}])
    graph = Graph(infer_shapes(with_fixed_sizes(model, ranges)))
    nodes = (node for scope in all_scopes(graph.root) for node in scope.nodes)
    if any(is_sum(node) and products(node) is None for node in nodes):
        decide_by_profile(graph, ranges)
    return graph.model()


def _ranks(proto: onnx.ModelProto) -> dict[str, int]:
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for graph in all_graphs(proto.graph)
        for value in (*graph.input, *graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
    }
    return ranks | {
        tensor.name: len(tensor.dims) for graph in all_graphs(proto.graph) for tensor in graph.initializer
    }


class _Noise:
    def __init__(
        self, scales: Mapping[str, float], ranks: Mapping[str, int], names: FreshNames, elem: int, opset: int
    ) -> None:
        self.sums: set[str] = set()
        self._scales, self._ranks, self._names, self._elem, self._opset = scales, ranks, names, elem, opset

    def graph(self, graph: onnx.GraphProto) -> None:
        """Changes the graph in place."""
        nodes = []
        for node in graph.node:
            for inner in subgraphs(node):
                self.graph(inner)
            nodes.append(node)
            if node.output and node.output[0] in self._scales:
                nodes.extend(self._noisy(node, graph))
        refill(graph.node, nodes)

    def _noisy(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """Noise in proportion to the size of partial sums: that of the element, or more where products cancel.

        Of an element's row and column where matrices are multiplied: the divisors of linear attention, say, are far smaller
        than what stands beside them, and so are their partial sums. Of a channel for other operators.
        """
        name = node.output[0]
        steps = ("sum", "wide", "square", "size", "noise", "scaled", "noisy")
        exact, wide, square, size, noise, scaled, noisy = (
            self._names.value(f"{name}/{step}") for step in steps
        )
        node.output[0] = exact
        self.sums.add(exact)
        yield helper.make_node("Cast", [exact], [wide], to=T.FLOAT)
        if self._is_matrices(node):
            squares = yield from self._finite_square(wide, square, graph)
            partial = yield from self._of_matrices(node, f"{name}/partial", graph)
        else:
            rank = self._ranks.get(name, 0)
            channel = 1 if node.op_type in _CHANNEL_FIRST else rank - 1
            others = [axis for axis in range(rank) if axis != channel]
            squares = yield from self._mean_square(wide, square, graph, others)
            partial = yield from self._of_channels(node, f"{name}/partial", graph)
        scale = self._scales[name]
        if partial:
            whole, scale = self._names.value(f"{name}/partial_and_whole"), scale / 3**0.5
            yield helper.make_node("Sum", [squares, squares, partial], [whole])
            squares = whole
        yield helper.make_node("Sqrt", [squares], [size])
        yield helper.make_node(
            "RandomNormalLike",
            [wide],
            [noise],
            dtype=T.FLOAT,
            scale=scale,
            seed=float(crc32(name.encode()) % 2**20),
        )
        yield helper.make_node("Mul", [noise, size], [scaled])
        yield helper.make_node("Add", [wide, scaled], [noisy])
        yield helper.make_node("Cast", [noisy], [name], to=self._elem)

    def _is_matrices(self, node: onnx.NodeProto) -> bool:
        least = min(self._ranks.get(name, 0) for name in node.input[:2])
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return node.op_type in ("MatMul", "Gemm") and least >= _MATRIX and not transposed

    def _of_matrices(self, node: onnx.NodeProto, base: str, graph: onnx.GraphProto) -> _Nodes:
        """The mean square of an element's row by the sum of the squares of its column."""
        left, right = (self._ranks[name] for name in node.input[:2])
        summed = right - 1 if any(a.name == "transB" and a.i for a in node.attribute) else right - 2
        names = [self._names.value(f"{base}/{step}") for step in ("input", "weights", "columns", "sums")]
        wide, weights, columns, sums = names
        yield helper.make_node("Cast", [node.input[0]], [wide], to=T.FLOAT)
        rows = yield from self._mean_square(wide, f"{base}/rows", graph, [left - 1])
        yield helper.make_node("Cast", [node.input[1]], [weights], to=T.FLOAT)
        keep = int(summed == right - 2)  # of columns that are rows, numbers are what is left
        yield self._reduced("ReduceSumSquare", weights, columns, [summed], graph, keepdims=keep)
        yield helper.make_node("Mul", [rows, columns], [sums])
        return sums

    def _of_channels(self, node: onnx.NodeProto, base: str, graph: onnx.GraphProto) -> _Nodes:
        """The sum of the squares of the products, for each channel, as if every input were as large; "" if not known."""
        rank = self._ranks.get(node.input[1], 0)
        if node.op_type != "Conv" or not rank:
            return ""
        names = [
            self._names.value(f"{base}/{step}") for step in ("input", "weights", "weight", "channel", "sums")
        ]
        wide, weights, weight, channel, sums = names
        yield helper.make_node("Cast", [node.input[0]], [wide], to=T.FLOAT)
        inputs = yield from self._mean_square(wide, f"{base}/inputs", graph, None)
        yield helper.make_node("Cast", [node.input[1]], [weights], to=T.FLOAT)
        yield self._reduced("ReduceSumSquare", weights, weight, list(range(1, rank)), graph, keepdims=1)
        yield helper.make_node("Transpose", [weight], [channel], perm=[1, 0, *range(2, rank)])
        yield helper.make_node("Mul", [inputs, channel], [sums])
        return sums

    def _mean_square(self, value: str, base: str, graph: onnx.GraphProto, axes: list[int] | None) -> _Nodes:
        """Over all axes, to one number, where none are given or known."""
        counted = yield from self._finite_square(value, base, graph)
        mean = self._names.value(f"{base}/mean")
        if axes:
            yield self._reduced("ReduceMean", counted, mean, axes, graph, keepdims=1)
        else:
            yield helper.make_node("ReduceMean", [counted], [mean], keepdims=int(axes is not None))
        return mean

    def _finite_square(self, value: str, base: str, graph: onnx.GraphProto) -> _Nodes:
        """Zero where that is not finite: attention that is masked whole is NaN until a node behind it chooses zeros."""
        steps = ("square", "finite", "counted", "infinity", "zero")
        square, finite, counted, infinity, zero = (self._names.value(f"{base}/{step}") for step in steps)
        graph.initializer.append(numpy_helper.from_array(np.array(np.inf, np.float32), infinity))
        graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), zero))
        yield helper.make_node("Mul", [value, value], [square])
        yield helper.make_node("Less", [square, infinity], [finite])
        yield helper.make_node("Where", [finite, square, zero], [counted])
        return counted

    def _reduced(
        self, op_type: str, value: str, result: str, axes: list[int], graph: onnx.GraphProto, keepdims: int
    ) -> onnx.NodeProto:
        if self._opset < _AXES_INPUT:
            return helper.make_node(op_type, [value], [result], axes=axes, keepdims=keepdims)
        given = self._names.value(f"{result}/axes")
        graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), given))
        return helper.make_node(op_type, [value, given], [result], keepdims=keepdims)

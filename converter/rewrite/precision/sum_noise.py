"""Adds noise to a graph that emulates TensorRT-RTX's float16 sums in onnxruntime.

A tensor core's instruction sums 16 products, and the sum so far is rounded to float16 after each. Of a sum of n products
that is n / 16 roundings of partial sums whose squares grow evenly: together n / 32 + 1 / 2 times the variance of rounding
the result. So written, a network of a hundred convolutions had ten thousand; here its results get normally distributed
noise of that variance instead, the same in every run. Measured (docs/evidence/gpu-engines.md, sums of products), as the
root: 1.6 times the error of rounding at 64 products, 2.9 at 256, 5.6 at 1,024, 8.3 at 2,304; this gives 1.6, 2.9, 5.7, 8.5.
Of whole networks on an H200, models.geometry was off by 4.1e-3 and models.centernet_dcn by 1.8e-1; so emulated 3.8e-3 and
1.5e-1, and with sums in float32 2.1e-3 and 6.7e-2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple
from zlib import crc32

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.scope import all_scopes
from trtsmith.converter.graph.walk import all_graphs, subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.rewrite.precision.sums import LONGEST, is_sum, products
from trtsmith.converter.rewrite.profile.decisions import decide_by_profile
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of, with_fixed_sizes

ROUNDING = 2.1e-4
"""Norm of the error of rounding values to float16 by that of the values. Measured with the sums."""

_AT_ONCE = 16
"""Products that one instruction sums without rounding."""

_AXES_INPUT = 18
"""The first opset in which the axes of ReduceMean are an input."""

_CHANNEL_FIRST = frozenset({"Conv", "ConvTranspose"})
"""Operators whose results have their channels in axis 1; of others these are the last axis."""


class Summed(NamedTuple):
    """sums: values that are not rounded before the noise is added to them (converter/rewrite/precision/emulate.py)."""

    model: Model
    sums: frozenset[str]


def with_float16_sums(
    model: Model,
    elem: int = T.FLOAT16,
    exact: Collection[str] = (),
    feeds: Mapping[str, np.ndarray] | None = None,
) -> Summed:
    """The model in which nodes that sum products have results as if the sums had been float16. Itself if it has none.

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
        and (scale := noise_of(products(node) or LONGEST)) > 0
    }
    if not scales:
        return Summed(model, frozenset())
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    names = FreshNames.of(proto)
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    ranks = _ranks(sized.proto)
    work = _Noise(scales, ranks, names, elem, opset)
    work.graph(proto.graph)
    return Summed(infer_shapes(model.with_proto(proto)), frozenset(work.sums))


def noise_of(count: int) -> float:
    """Noise of a sum of this many products, relative to the root mean square of the results, without their own rounding."""
    variance = count / (2 * _AT_ONCE) + 0.5 - 1.0
    return float(ROUNDING * np.sqrt(max(variance, 0.0)))


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
    return {
        value.name: len(value.type.tensor_type.shape.dim)
        for graph in all_graphs(proto.graph)
        for value in (*graph.value_info, *graph.output)
        if value.type.tensor_type.HasField("shape")
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
        del graph.node[:]
        graph.node.extend(nodes)

    def _noisy(self, node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        """Noise in proportion to the root mean square of a channel, as partial sums are large where sums cancel.

        Of its finite elements: attention that is masked whole is NaN until a node behind it chooses zeros.
        """
        name = node.output[0]
        steps = ("sum", "wide", "square", "finite", "counted", "mean", "size", "noise", "scaled", "noisy")
        exact, wide, square, finite, counted, mean, size, noise, scaled, noisy = (
            self._names.value(f"{name}/{step}") for step in steps
        )
        infinity, zero = (self._names.value(f"{name}/{constant}") for constant in ("infinity", "zero"))
        graph.initializer.append(numpy_helper.from_array(np.array(np.inf, np.float32), infinity))
        graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), zero))
        node.output[0] = exact
        self.sums.add(exact)
        yield helper.make_node("Cast", [exact], [wide], to=T.FLOAT)
        yield helper.make_node("Mul", [wide, wide], [square])
        yield helper.make_node("Less", [square, infinity], [finite])
        yield helper.make_node("Where", [finite, square, zero], [counted])
        yield self._mean(counted, mean, self._axes(node, name), graph)
        yield helper.make_node("Sqrt", [mean], [size])
        yield helper.make_node(
            "RandomNormalLike",
            [wide],
            [noise],
            dtype=T.FLOAT,
            scale=self._scales[name],
            seed=float(crc32(name.encode()) % 2**20),
        )
        yield helper.make_node("Mul", [noise, size], [scaled])
        yield helper.make_node("Add", [wide, scaled], [noisy])
        yield helper.make_node("Cast", [noisy], [name], to=self._elem)

    def _axes(self, node: onnx.NodeProto, name: str) -> list[int]:
        """All but that of the channels."""
        rank = self._ranks.get(name, 0)
        channel = 1 if node.op_type in _CHANNEL_FIRST else rank - 1
        return [axis for axis in range(rank) if axis != channel]

    def _mean(self, value: str, mean: str, axes: list[int], graph: onnx.GraphProto) -> onnx.NodeProto:
        """Over all axes where none are known."""
        if not axes:
            return helper.make_node("ReduceMean", [value], [mean], keepdims=1)
        if self._opset < _AXES_INPUT:
            return helper.make_node("ReduceMean", [value], [mean], axes=axes, keepdims=1)
        given = self._names.value(f"{mean}/axes")
        graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), given))
        return helper.make_node("ReduceMean", [value, given], [mean], keepdims=1)

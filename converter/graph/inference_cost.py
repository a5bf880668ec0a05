"""Limits the memory of onnx's shape inference: dimensions of shapes, and elements of propagated values.

onnx follows the values of vectors ("data propagation") with a message for each element, of whatever type, and takes every
vector of a known length for one of unknown numbers: a Range of 2^31 elements behind a Cast took all memory. So sizes go
through the nodes here first, as upper bounds of what onnx can know. Nothing is allocated that is as large as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.model.tensors import is_external
from trtsmith.importers.registry import FunctionId, normalise_domain

MOST_IN_SHAPES = 1 << 22
"""Dimensions of all shapes together: onnx makes a message of 48 bytes for each, and so does who reads its result."""

MOST_ELEMENTS = 1 << 20
"""Elements of all values together that onnx may follow. Each took 80 bytes."""

_NAME = 64
"""Characters of the name of a size that weigh as much as a dimension."""

_RANK = 8
"""Dimensions of a result whose operator gives it a rank of its own; no operator's schema has more."""

_RANK_OF_UNKNOWN = 1024
"""The most dimensions that onnx makes of a shape vector of known length and unknown numbers."""

_FOLLOWED = frozenset(
    {"Add", "Cast", "Concat", "Gather", "Mul", "Shape", "Size", "Slice", "Squeeze", "Sub", "Unsqueeze"}
)
"""Operators through which onnx follows values."""

_FIRST_FOLLOWED = frozenset({"Slice", "Squeeze", "Unsqueeze"})
"""Those of them that follow the first input alone."""

_SIZED: Mapping[str, int] = {
    "CenterCropPad": 1, "ConstantOfShape": 0, "Expand": 1, "Reshape": 1, "Resize": 3, "AffineGrid": 1,
}  # fmt: skip
"""Operators whose results have sizes that onnx follows, and the input with these."""

_NO_LARGER = frozenset(
    """Abs Add And ArgMax ArgMin AveragePool BatchNormalization BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CastLike Ceil Clip Conv ConvInteger Cos CumSum DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu
    Equal Erf Exp Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater
    GreaterOrEqual GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul MatMulInteger Max MaxPool Mean Min Mish
    Mod Mul Neg NonMaxSuppression NonZero Not Or PRelu Pow QLinearConv QLinearMatMul QuantizeLinear Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Round ScatterElements ScatterND Sigmoid Sign Sin Slice Softmax Softplus Split Sqrt
    Squeeze Sub Sum Tanh Transpose Trilu Unsqueeze Where Xor""".split()  # noqa: SIM905
)
"""Operators whose results have no dimension that is larger than all of their inputs', and than their paddings make it."""

_OTHER_RANK = frozenset(
    """ArgMax ArgMin Einsum GRU Gather GatherND LSTM NonMaxSuppression NonZero ScatterND Squeeze Unsqueeze""".split()  # noqa: SIM905
)
"""Those of them whose results have another rank than the largest of their inputs', as have those of reductions."""

_LARGEST_RANK = {"Concat", *(kind for kind in _NO_LARGER - _OTHER_RANK if not kind.startswith("Reduce"))}
"""Operators whose results have the largest rank of their inputs'."""

_AS_THEY_ARE = frozenset(
    """Abs Ceil Cos Erf Exp Floor Identity LeakyRelu Log Neg Not Reciprocal Relu Round Sigmoid Sign Sin Softmax Sqrt
    Tanh""".split()  # noqa: SIM905
)
"""Operators whose result has the sizes of their input: no other name for one is needed."""

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True)
class InferenceCost:
    """Upper bounds. dimensions: of all shapes. elements: of all values that are followed; infinite if there is none."""

    dimensions: float
    elements: float


class _Value(NamedTuple):
    """What onnx may know of a value, at most.

    rank: the largest; sure: whether it is the rank. size: of a dimension. total: of elements, where each dimension is known.
    length: of its numbers that are followed; None: as many as a vector of that size has. number: the largest of these.
    open: whether following values may tell more of its sizes than the model and inference without them.
    constant: whether its numbers are in the model. name: characters of the longest name of a size.
    """

    rank: float = 0
    sure: bool = False
    size: float = 0
    total: float = inf
    length: float | None = None
    number: float = 0
    open: bool = False
    constant: bool = False
    name: int = 0

    @property
    def weight(self) -> float:
        """Cost of one dimension: a symbol's name is copied with it."""
        return 1 + self.name // _NAME


_NOTHING = _Value()


def inference_cost(proto: onnx.ModelProto, *, inferred: bool) -> InferenceCost:
    """Estimates the cost of inference with values. inferred: whether onnx has inferred the model without them.

    Then calls of functions had better be unfolded: inference says nothing of values inside of these.
    """
    functions = {
        _kind(function.domain, function.name, function.overload): function for function in proto.functions
    }
    walk = _Walk(inferred, functions)
    walk.graph(proto.graph)
    return InferenceCost(walk.dimensions, walk.elements)


class _Walk:
    def __init__(self, inferred: bool, functions: Mapping[FunctionId, onnx.FunctionProto]) -> None:
        self.dimensions: float = 0
        self.elements: float = 0
        self._inferred = inferred
        self._functions = functions
        self._values: dict[str, _Value] = {}

    def graph(self, graph: onnx.GraphProto, given: _Value = _NOTHING) -> list[_Value]:
        """Costs of its results. given: what the inputs of a graph inside a node may be, as far as the graph does not
        say.
        """
        values = self._values
        types = {v.name: v.type for v in chain(graph.value_info, graph.output) if v.HasField("type")}
        for value in graph.input:
            self._set(value.name, _typed(value.type, given))
        for tensor in graph.initializer:
            values[tensor.name] = _constant(tensor)
        self._nodes(graph.node, types)
        return [values.get(value.name, _NOTHING) for value in graph.output]

    def _set(self, name: str, value: _Value) -> None:
        self._values[name] = value
        self.dimensions += value.rank * value.weight

    def _nodes(self, nodes: Iterable[onnx.NodeProto], types: Mapping[str, onnx.TypeProto]) -> None:
        values, functions = self._values, self._functions
        for node in nodes:
            inputs = [values.get(name, _NOTHING) for name in node.input] or [_NOTHING]
            function = None
            if functions:
                function = functions.get(_kind(node.domain, node.op_type, node.overload))
            if function is not None:
                found = self._call(function, inputs)
            elif _is_as_its_input(node.op_type, inputs):
                found = inputs
            else:
                found = [self._node(node, inputs)] * len(node.output)
            for name, value in zip(node.output, found, strict=False):
                if name:
                    self._set(name, _typed(types[name], value) if name in types else value)

    def _call(self, function: onnx.FunctionProto, inputs: Sequence[_Value]) -> list[_Value]:
        outside = self._values, self._inferred
        self._values, self._inferred = dict(zip(function.input, inputs, strict=False)), False
        self._nodes(function.node, {})
        results = [self._values.get(name, _NOTHING) for name in function.output]
        self._values, self._inferred = outside
        return results

    def _inside(self, graph: onnx.GraphProto, given: _Value) -> list[_Value]:
        """The results of a graph inside a node, which reads the values around it, and whose own end with it."""
        names = [value.name for value in chain(graph.input, graph.initializer)]
        names += [name for node in graph.node for name in node.output]
        hidden = {name: self._values[name] for name in names if name in self._values}
        results = self.graph(graph, given)
        for name in names:
            self._values.pop(name, None)
        self._values.update(hidden)
        return results

    def _node(self, node: onnx.NodeProto, inputs: Sequence[_Value]) -> _Value:
        if node.op_type == "Constant" and not node.domain:
            return next((_constant(a.t) for a in node.attribute if a.name == "value"), _of_numbers(node))
        rank, size, name, opened = inputs[0].rank, inputs[0].size, inputs[0].name, inputs[0].open
        for value in inputs[1:]:
            rank, size, name = max(rank, value.rank), max(size, value.size), max(name, value.name)
            opened |= value.open
        unknown = inf if opened or not self._inferred else 0
        bodies = list(subgraphs(node))
        if bodies:
            given = _Value(rank, size=inf if opened else size, open=opened, name=name)
            inside = [result for body in bodies for result in self._inside(body, given)]
            opened |= any(value.open for value in inside)
            rank = 1 + max([rank, *(value.rank for value in inside)])
            name = max([name, *(value.name for value in inside)])
            return _Value(rank, size=inf if opened else unknown, open=opened, name=name)
        if node.domain not in ("", "ai.onnx"):
            return _Value(max(rank, _RANK), size=unknown, open=opened, name=name)
        rank, sure = self._rank(node, inputs, rank)
        size = self._size(node, inputs, size, opened)
        if node.op_type in _SIZED:
            opened |= not _sizes_of(node, inputs).constant
        elif node.op_type == "Range":  # its ends are constants, or onnx knows nothing
            opened = False
        if node.op_type not in _FOLLOWED:
            return _Value(rank, sure, size, open=opened, name=name)
        length, number = self._followed(node, inputs)
        self.elements += length * (1 + name // _NAME)
        # What comes of a matrix may be a vector, which onnx follows from there.
        return _Value(rank, sure, size, inf, length or None, number, opened, name=name)

    def _rank(self, node: onnx.NodeProto, inputs: Sequence[_Value], rank: float) -> tuple[float, bool]:
        """The rank of the results, and whether it is exact. Long constants that a node reads as axes or sizes count, too."""
        kind = node.op_type
        listed = max([len(a.ints) for a in node.attribute]) if node.attribute else 0
        self.dimensions += listed
        if kind not in _FOLLOWED or kind in _FIRST_FOLLOWED:
            self.dimensions += sum([_constant_length(value) for value in inputs[kind in _FIRST_FOLLOWED :]])
        if kind in ("Shape", "Range"):
            return 1, True
        if kind == "Size":
            return 0, True
        if kind in _LARGEST_RANK:
            least = 2 if kind == "MatMul" else 0
            return rank, all(value.sure and value.rank >= least for value in inputs)
        axes = listed if len(inputs) < 2 else _constant_length(inputs[1])
        if kind == "Unsqueeze":
            return rank + axes, inputs[0].sure and bool(axes)
        if kind == "Squeeze":
            return max(rank - axes, 0), inputs[0].sure and bool(axes)
        if kind in ("Gather", "GatherND"):
            both = sum(value.rank for value in inputs) - (kind == "Gather")
            return max(both, 0), kind == "Gather" and all(value.sure for value in inputs)
        if kind in _SIZED:
            wanted = _sizes_of(node, inputs)
            length = wanted.size if wanted.length is None else wanted.length
            if length > _RANK_OF_UNKNOWN and not wanted.constant:
                length = _RANK_OF_UNKNOWN
                self.elements = inf
            sure = wanted.constant or (wanted.sure and wanted.rank == 1 and not wanted.open)
            return max(length, rank if kind != "Reshape" else 0, listed), sure and kind != "Resize"
        if kind == "Einsum":
            return max([rank, *(len(a.s) for a in node.attribute)]), False
        return max(rank + (kind in ("OneHot", "ConcatFromSequence")), listed, _RANK), False

    def _size(self, node: onnx.NodeProto, inputs: Sequence[_Value], largest: float, opened: bool) -> float:
        """The assumed size of a result's dimension of unknown size. largest: the largest size of the inputs."""
        kind = node.op_type
        if kind in _NO_LARGER:
            return largest + sum([sum(map(abs, a.ints)) for a in node.attribute if a.name == "pads"])
        if kind in ("Shape", "Size"):
            return inputs[0].rank
        if kind == "Concat":
            return sum(value.size for value in inputs)
        unknown = inf if opened or not self._inferred else 0
        if kind in _SIZED:
            wanted = _sizes_of(node, inputs)
            if wanted.constant and not unknown:
                return 0
            size = max(wanted.number, inputs[0].size if _SIZED[kind] else 0)
            if kind == "Resize":
                return size if wanted.constant else inf
            if kind == "Reshape" and (unknown or inputs[0].total < inf):  # -1 stands for what is left
                return max(size, inputs[0].total)
            return size
        if kind == "Pad" and len(inputs) > 1:
            return largest + 2 * inputs[1].number
        if kind == "Tile" and len(inputs) > 1:
            return _times([inputs[0].size, inputs[1].number])
        return unknown

    def _followed(self, node: onnx.NodeProto, inputs: Sequence[_Value]) -> tuple[float, float]:
        """How many numbers are followed through the node, and the largest of them. What it reads is counted."""
        kind = node.op_type
        if kind == "Shape":
            return inputs[0].rank, inputs[0].size
        if kind == "Size":
            return 1, float(inputs[0].total)
        read = inputs[:1] if kind in _FIRST_FOLLOWED else inputs
        lengths = []
        for name, value in zip(node.input, read, strict=False):
            length = value.length
            if length is None:
                length = 0 if value.sure and value.rank != 1 else value.size
                if length:
                    self.elements += length * value.weight
                    self._values[name] = value._replace(length=length)
            lengths.append(length)
        numbers = [value.number for value in read]
        number = max(numbers) if kind not in _GROWING else _GROWING[kind](numbers)
        if kind == "Concat":
            return sum(lengths), number
        if kind == "Gather":
            return lengths[-1] if lengths[0] else 0, number
        return max(lengths, default=0), number


def _is_as_its_input(kind: str, inputs: Sequence[_Value]) -> bool:
    """Whether no more is known of the result than of the first input: of most nodes, which need no closer look."""
    one = inputs[0]
    if one.constant or len(inputs) > 2:
        return False
    if len(inputs) == 1:
        return kind in _AS_THEY_ARE or (kind == "Cast" and one.sure and one.rank > 1)
    other = inputs[1]
    if kind not in _GROWING or not (one.sure and other.sure and one.rank >= other.rank > 1):
        return False
    return one.size >= other.size and one.open >= other.open and one.name >= other.name


def _times(numbers: Sequence[float]) -> float:
    """Their product as a float, whatever it is; 0 where one is not known."""
    return prod(map(float, numbers)) if all(numbers) else 0


_GROWING: Mapping[str, Callable[[Sequence[float]], float]] = {"Add": sum, "Sub": sum, "Mul": _times}
"""How large the numbers become that these operators make of others."""


def _kind(domain: str, name: str, overload: str) -> FunctionId:
    return normalise_domain(domain), name, overload


def _typed(type_: onnx.TypeProto, found: _Value) -> _Value:
    """What a type says of a value, with what else was found."""
    while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
        type_ = getattr(type_, str(type_.WhichOneof("value"))).elem_type
    tensor: Any = type_.tensor_type
    if not tensor.HasField("shape"):
        return found
    dims = tensor.shape.dim
    sizes = [dim.dim_value for dim in dims if dim.HasField("dim_value")]
    _, _, size, count, length, number, opened, constant, name = found
    if len(sizes) == len(dims):
        size, count = max(sizes, default=1), prod(sizes)
        length = length if length is None else min(length, count)
        return _Value(len(dims), True, size, count, length, number, False, constant, 0)
    name = max(name, *(len(dim.dim_param) for dim in dims))
    return _Value(len(dims), True, max([size, *sizes]), count, length, number, opened, constant, name)


def _sizes_of(node: onnx.NodeProto, inputs: Sequence[_Value]) -> _Value:
    """The input of an operator of `_SIZED` that has the sizes."""
    place = _SIZED[node.op_type]
    return inputs[place] if place < len(inputs) else _NOTHING


def _constant(tensor: TensorProto) -> _Value:
    sizes = tuple(tensor.dims)
    size, count, whole = max(sizes, default=1), prod(sizes), tensor.data_type in _INTEGERS
    if len(sizes) > 1 or not whole or is_external(tensor):
        return _Value(len(sizes), True, size, count)
    numbers = numpy_helper.to_array(tensor)
    return _Value(len(sizes), True, size, count, count, _largest(numbers), constant=True)


def _of_numbers(node: onnx.NodeProto) -> _Value:
    """A Constant whose numbers are an attribute themselves."""
    for attribute in node.attribute:
        if attribute.name == "value_int":
            return _Value(0, True, 1, 1, 1, abs(float(attribute.i)), constant=True)
        count = len(attribute.ints) or len(attribute.floats)
        if count:
            number = _largest(np.array(attribute.ints or [0]))
            return _Value(1, True, count, count, count if attribute.ints else None, number, constant=True)
    return _NOTHING


def _constant_length(value: _Value) -> float:
    return value.length if value.constant and value.length is not None else 0


def _largest(numbers: np.ndarray) -> float:
    return float(np.abs(numbers.astype(np.float64)).max(initial=0))

"""Measures the effect of a precision on a network: runs it in onnxruntime with values rounded as a GPU rounds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes, value_shapes
from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import inlined
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.precision.opset import BF16_OPSET, at_least
from trtsmith.converter.rewrite.precision.policy import KEPT_PORTS
from trtsmith.converter.rewrite.precision.reduce import values_in_float32
from trtsmith.converter.rewrite.precision.sum_noise import with_float16_sums
from trtsmith.converter.rewrite.types.operators import MOVES
from trtsmith.importers.registry import normalise_domain

Shapes = Mapping[str, tuple[int | None, ...]]

Store = Callable[[str, str], Iterator[onnx.NodeProto]]
"""Nodes that round a value, by its name and that of the result."""

FP16_SUMS = "fp16-sums"
"""float16 in which products are summed, too, as TensorRT-RTX sums them."""

PRECISIONS = ("fp32", "tf32", "fp16", FP16_SUMS, "bf16", "int8", "fp8")
"""Of an engine's arithmetic. TensorRT computes fp32 networks in TF32 on Ampere and later GPUs unless told not to."""

PRODUCTS: Mapping[str, int] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul"), 2),
    **dict.fromkeys(("Attention", "GRU", "LSTM", "RNN"), 3),
    "Einsum": 8,
}
"""What tensor cores do: by operator, how many of its first inputs are factors. States inside of a node are not rounded."""

GRIDS = (0.83, 0.71, 0.59)
"""Other grids of rounding, which are tried before an output is said to disagree."""

OWN_GRID = 0.91
"""The grid on which values are rounded that have 16 bits in the model itself: on that of 1 nothing would change."""

_NARROW = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}

_ROUND_NOTHING = MOVES.union(op_types("Cast Constant Floor If Loop Max Min Relu Round Scan Where"))
"""Operators whose results are inputs of theirs, whole numbers, or those of graphs inside."""

_WHERE_OPSET = 9
"""The first with Where."""

_FINE_SPLIT, _HUGE = float(2**4 + 1), 1e37
"""Veltkamp's constant for 20 significant bits, of values below _HUGE: others would overflow."""

_SPLIT = float(2**13 + 1)
"""Veltkamp's constant: with c = _SPLIT * x, c - (c - x) is x rounded to 24 - 13 = 11 significant bits, those of TF32."""

_BELOW = 1 - 2.0**-11
"""A number of 11 significant bits times this, and rounded to as many, is the next one nearer to zero."""

FEW_CHANNELS = 16
"""A convolution of at most as many input channels cuts its factors off at 11 bits in place of rounding them, if its kernel
has more than one element. Measured with TensorRT-RTX 1.6.1 on an H200: 3x3 kernels of 2 to 15 channels give the outputs of
cut factors to 3e-7, those of 20 and more, and 1x1 kernels, of rounded ones. Some of few channels round as well, as 7x7 of
three. HRNet, which has 22 of 16 channels, was off by 2.7e-3 there: cutting theirs gives 2.5e-3 to 2.8e-3, rounding 6e-4.
"""


def engine_precision(asked: str, *, float16_sums: bool = False) -> str:
    """Returns the precision of an engine's arithmetic. asked: its type, such as "fp16" or "float16" for half precision.

    What was asked for in float32, or has whole numbers of its own between float32 values, is computed in TF32.
    float16_sums: whether the TensorRT sums products of float16 in float16.
    """
    names = {
        **{fmt.name: flag for flag, fmt in FORMATS.items()},
        **{name: name for name in ("fp16", "bf16", "int8", "fp8")},
    }
    precision = names.get(asked, "tf32")
    return FP16_SUMS if float16_sums and precision == "fp16" else precision


def rounded(
    model: Model,
    precision: str,
    *,
    exact: Collection[str] | None = None,
    feeds: Mapping[str, np.ndarray] | None = None,
    grid: float = 1.0,
    fine: bool = False,
) -> Model:
    """Returns the model as an engine of this precision computes it, in standard operators on float32 values.

    fp32: every result has 20 significant bits: what that changes is some 16 times what a rounding of float32 does, as large
    as sums in another order and other approximations of functions make it. A Resize reads as far beside its positions as
    their roundings put it.
    tf32: both operands of every matrix product and convolution have 11 significant bits, and sums are float32. The bits
    are rounded, and cut off where a convolution has few channels (FEW_CHANNELS).
    fp16, bf16: what a node reads and makes is stored in that type, weights and inputs too, except the statistics of
    BatchNormalization and all of the nodes that the precision pass keeps in float32: those named in `exact` and what lies
    between them, or those that it keeps by itself where that is None: their products are in TF32. Other arithmetic inside a
    node is float32, as in the kernels of tensor cores. Custom operators compute in float32 inside, as ours do.
    fp16-sums: as fp16, and sums of products have the error of float16 ones (converter/rewrite/precision/sum_noise.py), but
    those of the nodes named in `exact`. feeds: what it will be run with, which says how long they are.
    fine: whether tf32 also rounds every result as fp32 does.
    grid: in place of a value that rounding changes, its product with this is rounded, and divided again: each rounding is as
    large, and another one. Below 1, so that none overflows.
    Values of other types are left alone, but for results in the model's own float16 and bfloat16: they are rounded once
    more, on `grid` or OWN_GRID, as an engine rounds elsewhere what it fuses.
    ConversionError: an old opset, whose Cast knows no bfloat16, that onnx cannot convert. onnxruntime must not optimise the
    result: it fuses over Casts that round, into kernels that it then lacks.
    """
    if precision == FP16_SUMS:
        return with_float16_sums(
            rounded(model, "fp16", exact=exact, grid=grid), TensorProto.FLOAT, exact or (), feeds
        ).model
    inferred = _inlined(_new_enough(model, precision))
    proto = inferred.copied()
    fmt = FORMATS.get(precision)
    wide = values_in_float32(inferred, fmt, exact) if fmt is not None else None
    rounding = _Rounding(proto, precision, grid, wide, fine or precision == "fp32")
    for graph in reversed(list(all_graphs(proto.graph))):  # inner ones first: an outer one copies its nodes
        nodes = list(rounding.nodes(list(graph.node)))
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
    proto.graph.initializer.extend(rounding.numbers())
    return inferred.with_proto(proto)


class _Rounding:
    """Writes the roundings of one precision into graphs of a model; arguments as in `rounded`.

    wide: values that are not rounded; None where the precision has no type of its own. fine: whether results keep 20 bits.
    """

    def __init__(
        self, proto: onnx.ModelProto, precision: str, grid: float, wide: frozenset[str] | None, fine: bool
    ) -> None:
        self._proto, self._precision, self._grid, self._wide = proto, precision, grid, wide
        self._fine = fine
        self._dtypes, self._shapes = value_dtypes(proto), value_shapes(proto)
        nodes = [node for graph in all_graphs(proto.graph) for node in graph.node]
        self._names = names = FreshNames()
        names.take(self._dtypes)
        names.take(name for node in nodes for name in node.output)
        made = {name for node in nodes for name in node.output if not _is_weight(node)}
        self._stored = made - (wide or frozenset())
        self._split, self._below, self._fine_split, self._huge = (
            names.value(f"tf32_{part}") for part in ("split", "below", "fine_split", "huge")
        )
        self._scale, self._zero = (names.value(f"rounding_{part}") for part in ("grid", "zero"))
        self._bits = Tf32(names, self._split, self._below)

    def nodes(self, nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
        """The nodes of one graph, with roundings between them."""
        dtypes, names, wide = self._dtypes, self._names, self._wide
        if self._precision == "fp32":
            nodes = _read_beside(nodes, self._shapes, names, self._proto, self._grid)
        if self._precision != "tf32" or self._fine:
            nodes = _values_stored(nodes, dtypes, names, self._stored, self._store(), wide or frozenset())
        nodes = _narrow_values_moved(nodes, dtypes, names, self._scale)
        if self._precision != "fp32":
            ways = {False: self._on_grid(self._bits.rounded), True: self._on_grid(self._bits.cut)}
            nodes = _products_rounded(nodes, dtypes, self._shapes, names, ways, wide)
        return nodes

    def _store(self) -> Store:
        fmt = FORMATS.get(self._precision)
        if fmt is None:
            bits = Tf32(self._names, self._fine_split, self._below)
            return self._on_grid(partial(_shortened, bits=bits, huge=self._huge))
        return self._on_grid(partial(_stored, names=self._names, elem_type=fmt.elem))

    def _on_grid(self, store: Store) -> Store:
        if self._grid == 1:
            return store
        return partial(_on_grid, store, names=self._names, scale=self._scale, zero=self._zero)

    def numbers(self) -> Iterator[onnx.TensorProto]:
        """The initializers that the roundings read."""
        numbers = {self._fine_split: _FINE_SPLIT, self._huge: _HUGE} if self._fine else {}
        if self._precision != "fp32":
            numbers |= {self._split: _SPLIT, self._below: _BELOW}
        numbers |= {self._scale: OWN_GRID} if self._grid == 1 else {self._scale: self._grid, self._zero: 0.0}
        for name, number in numbers.items():
            yield helper.make_tensor(name, TensorProto.FLOAT, [], [number])


def _new_enough(model: Model, precision: str) -> Model:
    """The model with an opset that has what roundings are written in; an older one as it is, if onnx cannot convert it."""
    if precision == "bf16":
        return at_least(model, BF16_OPSET)
    with suppress(ConversionError):
        return at_least(model, _WHERE_OPSET)
    return model


def has_products(model: Model) -> bool:
    """Tells whether there is anything that TF32 rounds."""
    proto = _inlined(model).proto
    dtypes = value_dtypes(proto)
    return any(_factors(node, dtypes) for graph in all_graphs(proto.graph) for node in graph.node)


def _inlined(model: Model) -> Model:
    return infer_shapes(inlined(model))


def _factors(node: onnx.NodeProto, dtypes: Mapping[str, str]) -> list[tuple[int, str]]:
    """The float32 inputs of a node that tensor cores multiply, with their positions."""
    count = 0 if normalise_domain(node.domain) else PRODUCTS.get(node.op_type, 0)
    return [(i, value) for i, value in enumerate(node.input[:count]) if dtypes.get(value) == "float32"]


@dataclass(frozen=True)
class Tf32:
    """Writes nodes that give values the significant bits of TF32. split, below: initializers of _SPLIT and _BELOW."""

    names: FreshNames
    split: str
    below: str

    def rounded(self, value: str, result: str) -> Iterator[onnx.NodeProto]:
        scaled, rest = (self.names.value(f"{result}_{part}") for part in ("scaled", "rest"))
        yield helper.make_node("Mul", [value, self.split], [scaled])
        yield helper.make_node("Sub", [scaled, value], [rest])
        yield helper.make_node("Sub", [scaled, rest], [result])

    def cut(self, value: str, result: str) -> Iterator[onnx.NodeProto]:
        """Rounds towards zero: where the nearest number is larger in magnitude, the next one below it."""
        near, less, low, size, given, over = (
            self.names.value(f"{result}_{part}") for part in ("near", "less", "low", "size", "given", "over")
        )
        yield from self.rounded(value, near)
        yield helper.make_node("Mul", [near, self.below], [less])
        yield from self.rounded(less, low)
        yield helper.make_node("Abs", [near], [size])
        yield helper.make_node("Abs", [value], [given])
        yield helper.make_node("Greater", [size, given], [over])
        yield helper.make_node("Where", [over, low, near], [result])


def _has_few_channels(node: onnx.NodeProto, shapes: Shapes) -> bool:
    """Whether it is a convolution of few channels, in one group, of weights [outputs, channels, ...]."""
    if node.op_type != "Conv" or any(a.name == "group" and a.i != 1 for a in node.attribute):
        return False
    weights = shapes.get(node.input[1], ())
    if len(weights) < 3 or None in weights:
        return False
    return (weights[1] or 0) <= FEW_CHANNELS and math.prod(size or 0 for size in weights[2:]) > 1


def _products_rounded(
    nodes: Iterable[onnx.NodeProto],
    dtypes: Mapping[str, str],
    shapes: Shapes,
    names: FreshNames,
    ways: Mapping[bool, Store],
    only: frozenset[str] | None = None,
) -> Iterator[onnx.NodeProto]:
    """The nodes, with factors rounded before them.

    ways: how, by whether they are cut off. only: results of those nodes whose factors are rounded; None: of all.
    """
    held: dict[tuple[str, bool], str] = {}
    for node in nodes:
        cut = _has_few_channels(node, shapes)
        factors = _factors(node, dtypes) if only is None or not only.isdisjoint(node.output) else ()
        for position, value in factors:
            if (value, cut) not in held:
                held[value, cut] = names.value(f"{value}_tf32")
                yield from ways[cut](value, held[value, cut])
            node.input[position] = held[value, cut]
        yield node


def _values_stored(
    nodes: Iterable[onnx.NodeProto],
    dtypes: Mapping[str, str],
    names: FreshNames,
    stored: set[str],
    store: Store,
    wide: Collection[str],
) -> Iterator[onnx.NodeProto]:
    """Results in `stored` are rounded where they are made; others, weights and inputs where a graph first reads them.

    wide: results of nodes that round nothing.
    """
    held: dict[str, str] = {}
    for node in nodes:
        if any(name in wide for name in node.output):
            yield node
            continue
        native = not normalise_domain(node.domain)
        exact = KEPT_PORTS[node.op_type][1] if native and node.op_type in KEPT_PORTS else ()
        for position, value in enumerate(node.input):
            if dtypes.get(value) == "float32" and value not in stored and position not in exact:
                if value not in held:
                    held[value] = names.value(f"{value}_stored")
                    yield from store(value, held[value])
                node.input[position] = held[value]
        if _is_weight(node):
            yield node
            continue
        results = [(i, value) for i, value in enumerate(node.output) if dtypes.get(value) == "float32"]
        for i, value in results:
            node.output[i] = names.value(f"{value}_wide")
        unrounded = list(node.output)
        yield node
        for i, value in results:
            yield from store(unrounded[i], value)


def _narrow_values_moved(
    nodes: Iterable[onnx.NodeProto], dtypes: Mapping[str, str], names: FreshNames, scale: str
) -> Iterator[onnx.NodeProto]:
    """The nodes, with results of 16 bits rounded once more in their type, on the grid that `scale` holds."""
    for node in nodes:
        native = not normalise_domain(node.domain)
        results = [(i, value) for i, value in enumerate(node.output) if dtypes.get(value) in _NARROW]
        if (native and node.op_type in _ROUND_NOTHING) or not results:
            yield node
            continue
        for i, value in results:
            node.output[i] = names.value(f"{value}_exact")
        made = list(node.output)
        yield node
        for i, value in results:
            elem = _NARROW[dtypes[value]]
            parts = ("wide", "scaled", "there", "other")
            wide, scaled, there, other = (names.value(f"{value}_{part}") for part in parts)
            yield helper.make_node("Cast", [made[i]], [wide], to=TensorProto.FLOAT)
            yield helper.make_node("Mul", [wide, scale], [scaled])
            yield from _stored(scaled, there, names, elem)
            yield helper.make_node("Div", [there, scale], [other])
            yield helper.make_node("Cast", [other], [value], to=elem)


def _read_beside(
    nodes: Iterable[onnx.NodeProto],
    shapes: Shapes,
    names: FreshNames,
    proto: onnx.ModelProto,
    grid: float,
) -> Iterator[onnx.NodeProto]:
    """The nodes, with the result of a Resize that interpolates moved towards its neighbours, by chance.

    A position along n elements is computed in float32 in one order or another, and is off by some n * 2**-24; the result, by
    that part of the difference between neighbours: of 518 rows 3e-5, where a rounding of the result is 6e-8.
    """
    opset = next((one.version for one in proto.opset_import if not normalise_domain(one.domain)), 1)
    for node in nodes:
        shape = shapes.get(node.output[0], ()) if node.op_type == "Resize" else ()
        mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
        before = shapes.get(node.input[0], ()) if shape else ()
        sizes = [(axis, n) for axis, n in enumerate(shape) if n and n > 1 and before[axis : axis + 1] != (n,)]
        if normalise_domain(node.domain) or mode == b"nearest" or opset < _PAD_INPUTS or not sizes:
            yield node
            continue
        result = node.output[0]
        held = node.output[0] = names.value(f"{result}_there")
        yield node
        for number, (axis, size) in enumerate(sizes):
            last = number == len(sizes) - 1
            beside = result if last else names.value(f"{result}_beside_{axis}")
            yield from _moved_along(held, beside, axis, len(shape), size * _POSITION, grid, names)
            held = beside


_PAD_INPUTS = 11
"""The opset from which Pad takes its widths as an input."""

_POSITION = 2.0**-23
"""By how much a position is off, of the elements that it is one of: two roundings of float32."""


def _moved_along(
    value: str, result: str, axis: int, rank: int, scale: float, grid: float, names: FreshNames
) -> Iterator[onnx.NodeProto]:
    """Each element by a random part of its difference from the next one. grid: another one draws other numbers."""
    parts = ("zero", "one", "minus", "end", "axis", "widths", "first", "next", "step", "whole", "part", "off")
    zero, one, minus, end, along, widths, first, after, step, whole, part, off = (
        names.value(f"{result}_{name}") for name in parts
    )
    padded = [0] * (2 * rank)
    padded[rank + axis] = 1
    numbers = {zero: [0], one: [1], minus: [-1], end: [2**31 - 1], along: [axis], widths: padded}
    for name, array in numbers.items():
        tensor = helper.make_tensor(name, TensorProto.INT64, [len(array)], array)
        yield helper.make_node("Constant", [], [name], value=tensor)
    yield helper.make_node("Slice", [value, zero, minus, along], [first])
    yield helper.make_node("Slice", [value, one, end, along], [after])
    yield helper.make_node("Sub", [after, first], [step])
    yield helper.make_node("Pad", [step, widths], [whole])
    seed = float(crc32(f"{result} {grid}".encode()) % 2**20)
    yield helper.make_node(
        "RandomNormalLike", [whole], [part], dtype=TensorProto.FLOAT, scale=scale, seed=seed
    )
    yield helper.make_node("Mul", [whole, part], [off])
    yield helper.make_node("Add", [value, off], [result])


def _is_weight(node: onnx.NodeProto) -> bool:
    """Whether the node is a weight that is written as a node."""
    return node.op_type == "Constant" and not normalise_domain(node.domain)


def _shortened(value: str, stored: str, bits: Tf32, huge: str) -> Iterator[onnx.NodeProto]:
    """The value with fewer significant bits, where it is not huge."""
    size, small, short = (bits.names.value(f"{stored}_{part}") for part in ("size", "small", "short"))
    yield helper.make_node("Abs", [value], [size])
    yield helper.make_node("Less", [size, huge], [small])
    yield from bits.rounded(value, short)
    yield helper.make_node("Where", [small, short, value], [stored])


def _on_grid(
    rounding: Store, value: str, result: str, names: FreshNames, scale: str, zero: str
) -> Iterator[onnx.NodeProto]:
    """A value that rounding changes, rounded on another grid; others, such as indices, stay as they are."""
    parts = ("near", "off", "size", "changed", "scaled", "there", "other")
    near, off, size, changed, scaled, there, other = (names.value(f"{result}_{part}") for part in parts)
    yield from rounding(value, near)
    yield helper.make_node("Sub", [near, value], [off])
    yield helper.make_node("Abs", [off], [size])
    yield helper.make_node("Greater", [size, zero], [changed])
    yield helper.make_node("Mul", [value, scale], [scaled])
    yield from rounding(scaled, there)
    yield helper.make_node("Div", [there, scale], [other])
    yield helper.make_node("Where", [changed, other, near], [result])


def _stored(value: str, stored: str, names: FreshNames, elem_type: int) -> Iterator[onnx.NodeProto]:
    narrow = names.value(f"{stored}_narrow")
    yield helper.make_node("Cast", [value], [narrow], to=elem_type)
    yield helper.make_node("Cast", [narrow], [stored], to=TensorProto.FLOAT)

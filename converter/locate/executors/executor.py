"""Defines the executor of a search, and runs the reference and the original model in onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.engine.reduction.shape_worker import with_shapes
from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.converter.rewrite.types import IoType, to_engine
from trtsmith.converter.verify import reduced
from trtsmith.importers.dtypes import dtype_name
from trtsmith.importers.opdef import Arrays

_TYPES: Mapping[str, str] = {
    f"tensor({name})": dtype
    for name, dtype in (
        ("float", "float32"), ("double", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"),
        ("bool", "bool"), *((f"{sign}int{bits}",) * 2 for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}  # fmt: skip
"""onnxruntime's names of types that can be compared, and numpy's; sequences, strings and odd numbers are none."""

COMPARABLE = frozenset(_TYPES.values())
"""Element types that a comparison knows."""

ODD = frozenset({"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
"""Types that numpy's files and onnxruntime's Python do not know. They cross an edge as float32, which holds each value."""


class Executor(Protocol):
    """Runs models whose outputs are intermediate values of the searched graph.

    name:  what runs it, for the report.
    types: element types that it can give back as outputs.
    tf32:  whether it multiplies float32 matrices with 10-bit mantissas, as TensorRT does on GPUs that can.
    float16_sums: whether it sums products of float16 in float16, as TensorRT-RTX does.
    fuses: whether it may compute several nodes in one kernel, which an output in between prevents.
    """

    name: str
    types: frozenset[str]
    tf32: bool
    fuses: bool

    @property
    def float16_sums(self) -> bool: ...

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """Returns all outputs of the model. ConversionError if it cannot run with these outputs; UsageError for other
        faults.
        """
        ...


class Onnxruntime:
    """onnxruntime on the CPU with plugin nodes expanded and without fusion: the reference."""

    name = "onnxruntime"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        return run_in_types(expand(model), feeds)


def run_in_types(model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
    """Runs a model of standard operators. Returns all outputs in the model's types, whatever they are."""
    edges = plain_edges(model)
    return edges.take_out(reduced.run_in_types(edges.model, edges.put_in(feeds)))


@dataclass(frozen=True)
class PlainEdges:
    """A model whose inputs and outputs have plain types. names: name and type here, by edge of the original model."""

    model: Model
    names: Mapping[str, tuple[str, str]]

    def put_in(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Converts arrays from the original's names and types to this model's."""
        return {
            self.names[n][0] if n in self.names else n: a.astype(np.float32) if n in self.names else a
            for n, a in arrays.items()
        }

    def take_out(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Converts this model's outputs to the original's names and types."""
        back = {new: (old, np.dtype(dtype)) for old, (new, dtype) in self.names.items()}
        return {
            back[n][0] if n in back else n: a.astype(back[n][1]) if n in back else a
            for n, a in arrays.items()
        }


def plain_edges(model: Model) -> PlainEdges:
    """Casts to float32 at inputs and outputs of types that numpy lacks. Returns the model itself if there are none."""
    if not any(_is_odd(value) for value in (*model.proto.graph.input, *model.proto.graph.output)):
        return PlainEdges(model, {})
    proto = model.copied()
    graph, fresh = proto.graph, FreshNames.of(proto)
    names: dict[str, tuple[str, str]] = {}
    casts_in: list[onnx.NodeProto] = []
    casts_out: list[onnx.NodeProto] = []
    for edges, casts in ((graph.input, casts_in), (graph.output, casts_out)):
        for value in filter(_is_odd, edges):
            old, elem_type = value.name, value.type.tensor_type.elem_type
            value.name, value.type.tensor_type.elem_type = (
                fresh.value(f"{old}/float32"),
                onnx.TensorProto.FLOAT,
            )
            names[old] = (value.name, dtype_name(elem_type))
            read, made, to = (
                (value.name, old, elem_type)
                if casts is casts_in
                else (old, value.name, onnx.TensorProto.FLOAT)
            )
            casts.append(helper.make_node("Cast", [read], [made], to=to))
    nodes = onnx.GraphProto(node=[*casts_in, *graph.node, *casts_out])
    del graph.node[:]
    graph.node.extend(nodes.node)
    return PlainEdges(model.with_proto(proto), names)


def _is_odd(value: onnx.ValueInfoProto) -> bool:
    elem_type = value.type.tensor_type.elem_type
    return bool(elem_type) and dtype_name(elem_type) in ODD


@dataclass(frozen=True, eq=False)
class OriginalValues:
    """An executor that returns the original's values for any graph.

    model: in a form that onnxruntime runs (rewrite.rewrite.reference). feeds: of all its inputs, those frozen since
    among them. values: what can be asked for. io_types: values are given in the engine's types.
    """

    model: Model
    feeds: Arrays
    values: Mapping[str, ProbedValue]
    io_types: Sequence[IoType] = ()

    name = "the original"
    types = COMPARABLE
    tf32 = float16_sums = fuses = False

    def execute(self, model: Model, feeds: Arrays) -> dict[str, np.ndarray]:
        """Returns the values that are outputs of `model`; `feeds` are not used."""
        infos = (self.values[value.name].info() for value in model.proto.graph.output)
        found = run_in_types(with_outputs(self.model, infos, only=True), self.feeds)
        return to_engine(found, self.io_types)


@dataclass(frozen=True)
class ProbedValue:
    """A value in one run. dtype: as numpy and ml_dtypes name it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def info(self) -> onnx.ValueInfoProto:
        """Describes the value as a graph output; TensorRT's parser needs the type of each, and finds the shape itself."""
        elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        return helper.make_tensor_value_info(self.name, elem_type, None)


def probe(model: Model, names: Iterable[str], feeds: Arrays) -> dict[str, ProbedValue]:
    """Runs the model and describes those of the values that are comparable tensors. Raises ConversionError.

    Only shapes are asked for, so that memory stays what one run needs.
    """
    wanted = list(dict.fromkeys(names))
    wide, narrow = reduced.in_float32(model)
    marked = with_outputs(wide, (onnx.ValueInfoProto(name=n) for n in wanted), only=True)
    outputs = open_session(marked, repack=False, optimise=False).get_outputs()
    types = {o.name: narrow.get(o.name, _TYPES[o.type]) for o in outputs if o.type in _TYPES}
    asked, shapes = with_shapes(model, types)  # of the model as it is: it is emulated when it runs
    found = run_in_types(asked, feeds)
    return {
        name: ProbedValue(name, dtype, tuple(map(int, found[shapes[name]]))) for name, dtype in types.items()
    }


def with_outputs(model: Model, outputs: Iterable[onnx.ValueInfoProto], *, only: bool = False) -> Model:
    """Adds these values to the model's outputs; only: instead of them."""
    proto = model.copied()
    if only:
        del proto.graph.output[:]
    have = {value.name for value in proto.graph.output}
    proto.graph.output.extend(value for value in outputs if value.name not in have)
    return model.with_proto(proto)

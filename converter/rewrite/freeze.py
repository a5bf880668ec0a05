"""Freezes graph inputs to the user's values, and finds the inputs that TensorRT needs as constants.

TensorRT wants some operands as constants (axes, ratios) and takes others as shape tensors, whose values an optimization
profile gives (the target of a Reshape, the repeats of a Tile).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.graph.operator_groups import REDUCTIONS
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.importers.dtypes import FLOATS, NUMBERS, numpy_dtype
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import normalise_domain

_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")
SHAPE_OPERANDS: Mapping[str, frozenset[int]] = {
    "ConstantOfShape": frozenset({0}),
    "CumSum": frozenset({1}),  # one axis only: smallest, usual and largest value have to be equal
    "Expand": frozenset({1}),
    "Pad": frozenset({1, 3}),
    "Range": frozenset({0, 1, 2}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({3}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
    **{window: frozenset({0}) for window in _WINDOWS},
}
"""By operator, the inputs that TensorRT reads as shape tensors: integers, with values from a profile. TensorRT-RTX 1.7.1
builds each of them with values that range."""

CONSTANT_OPERANDS: Mapping[str, frozenset[int]] = {
    "AffineGrid": frozenset({1}),
    "CenterCropPad": frozenset({1}),
    "Col2Im": frozenset({1, 2}),
    "CumProd": frozenset({1}),
    "DFT": frozenset({1, 2}),
    "Dropout": frozenset({2}),
    "MaxUnpool": frozenset({2}),
    "MelWeightMatrix": frozenset({0, 1, 2, 3, 4}),
    "OneHot": frozenset({1}),
    "Resize": frozenset({1, 2}),
    "STFT": frozenset({1, 3}),
    "SequenceAt": frozenset({1}),
    "SequenceErase": frozenset({1}),
    "SequenceInsert": frozenset({2}),
    "SplitToSequence": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    "Upsample": frozenset({1}),
    **{reduction: frozenset({1}) for reduction in REDUCTIONS},
}
"""By operator, the inputs that have to be constants: they decide what is computed, not how large it is."""

DECIDING_OPERANDS: Mapping[str, frozenset[int]] = {
    "CumSum": frozenset({1}),
    "Dropout": frozenset({1}),
    "Pad": frozenset({3}),
    "Slice": frozenset({3, 4}),
    "Split": frozenset({1}),
    "Trilu": frozenset({1}),
    **{window: frozenset({0}) for window in _WINDOWS},
}
"""By operator, further inputs that TensorRT takes at run time in the forms that it imports. The rules that write other
forms with these want constants."""

_SIZES: Mapping[str, frozenset[int]] = {**SHAPE_OPERANDS, "Loop": frozenset({0})}

FLOAT_TYPES = frozenset(NUMBERS[name] for name in FLOATS)

SIZE_OPERATORS = frozenset(
    """Abs Add Cast Ceil Concat Div Flatten Floor Gather Identity Max Min Mul Neg Relu Reshape Slice Squeeze Sub
    Unsqueeze Where""".split()  # noqa: SIM905
)
"""Operators with which graphs put axes, shapes and sizes together."""


@dataclass(frozen=True)
class Frozen:
    """An input that became a constant. `value` is its text: the elements if there are few."""

    input: str
    dtype: str
    shape: tuple[int, ...]
    value: str

    def __str__(self) -> str:
        return f"input {self.input!r} is frozen to {self.value}: the engine is valid only for this value"


def freeze_inputs(model: Model, values: Mapping[str, np.ndarray]) -> tuple[Model, tuple[Frozen, ...]]:
    """Returns the model with these inputs as initializers; itself for an empty map. Raises UsageError with all mistakes."""
    if not values:
        return model, ()
    inputs = {value.name: value for value in model.proto.graph.input}
    problems = [p for name, value in values.items() for p in value_problems(inputs, name, value)]
    if problems:
        raise UsageError(problems)
    proto = model.copied()
    graph = proto.graph
    kept = [value for value in inputs.values() if value.name not in values]
    defaults = [tensor for tensor in model.proto.graph.initializer if tensor.name not in values]
    del graph.input[:], graph.initializer[:]
    graph.input.extend(kept)
    graph.initializer.extend(defaults)
    graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in values.items())
    return model.with_proto(proto), tuple(_frozen(name, value) for name, value in values.items())


def _frozen(name: str, value: np.ndarray) -> Frozen:
    text = str(value.tolist()) if value.size <= 16 else f"an array of shape {list(value.shape)}"
    return Frozen(name, str(value.dtype), value.shape, text)


def value_problems(
    inputs: Mapping[str, onnx.ValueInfoProto], name: str, value: np.ndarray, flag: str = "--freeze"
) -> list[Problem]:
    """Returns the problems of a value for an input."""
    where = f"{flag} {name}"
    if name not in inputs:
        known = ", ".join(map(repr, inputs)) or "(none)"
        return [Problem(f"the model has no input {name!r}", where, f"one of {known}", "correct the name")]
    fix = f"--freeze {example_flag(inputs[name])}   (with your own value)"
    type_ = inputs[name].type.tensor_type
    want = numpy_dtype(type_.elem_type)
    if value.dtype != want:
        return [Problem(f"the value of {name!r} is {value.dtype}", where, str(want), fix)]
    dims = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
    fits = len(dims) == value.ndim and all(a in (None, b) for a, b in zip(dims, value.shape, strict=True))
    if type_.HasField("shape") and not fits:
        shown = f"shape [{', '.join('?' if d is None else str(d) for d in dims)}]" if dims else "a scalar"
        what = (
            f"the value of {name!r} has shape {list(value.shape)}"
            if value.ndim
            else f"the value of {name!r} is a scalar"
        )
        return [Problem(what, where, shown, fix)]
    return []


def example_flag(value: onnx.ValueInfoProto) -> str:
    """Returns an example NAME=VALUE for --freeze, with zeros for the value, quoted for a shell."""
    type_ = value.type.tensor_type
    dtype = numpy_dtype(type_.elem_type) if type_.elem_type else np.dtype(np.int64)
    shape = [d.dim_value if d.HasField("dim_value") else 1 for d in type_.shape.dim]
    if prod(shape) > 16:
        return shlex.quote(f"{value.name}=@FILE.npy")
    zeros: object = np.zeros(shape, dtype if dtype.kind in "iub" else np.float32).tolist()
    return shlex.quote(f"{value.name}={json.dumps(zeros, separators=(',', ':'))}")


def inputs_to_freeze(proto: onnx.ModelProto, deciding: bool = True) -> frozenset[str]:
    """Names graph inputs that some node needs as constants; with `deciding`, also those that a rule may want constant."""
    tables = (CONSTANT_OPERANDS, DECIDING_OPERANDS) if deciding else (CONSTANT_OPERANDS,)
    floats = {v.name for v in proto.graph.input if v.type.tensor_type.elem_type in FLOAT_TYPES}
    # a float that decides a size: TensorRT takes integers only for what a profile gives
    return _inputs_of(proto, tables) | (_inputs_of(proto, (_SIZES,)) & floats)


def shape_inputs(proto: onnx.ModelProto) -> frozenset[str]:
    """Names integer graph inputs that TensorRT reads as shape tensors, as far as known without TensorRT."""
    whole = {
        value.name
        for value in proto.graph.input
        if value.type.tensor_type.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
        and len(value.type.tensor_type.shape.dim) <= 1
    }
    return _inputs_of(proto, (SHAPE_OPERANDS,)) & whole


def _inputs_of(proto: onnx.ModelProto, tables: Sequence[Mapping[str, frozenset[int]]]) -> frozenset[str]:
    """Graph inputs that reach one of these operands through operators on sizes."""
    small = (v for v in proto.graph.input if len(v.type.tensor_type.shape.dim) <= 1)
    sources = {value.name: frozenset({value.name}) for value in small}
    found: set[str] = set()
    for graph in all_graphs(proto.graph):
        for node in graph.node:
            if normalise_domain(node.domain):
                continue
            if node.op_type in SIZE_OPERATORS:
                reached = [sources[name] for name in node.input if name in sources]
                if reached:
                    sources[node.output[0]] = frozenset().union(*reached)
            for table in tables:
                for position in table.get(node.op_type, ()):
                    if position < len(node.input):
                        found |= sources.get(node.input[position], frozenset())
    return frozenset(found)


def ready_made_flags(scope: Scope, name: str) -> str:
    """Writes --freeze flags for all graph inputs from which a value is computed; "" if it depends on anything else."""
    flags: list[str] = []
    queue, seen = [(scope, name)], set[str]()
    while queue:
        reader, value = queue.pop()
        holder = reader.holder(value)
        if holder is None:
            return ""
        if value in seen or reader.is_constant(value):
            continue
        seen.add(value)
        maker = holder.producers.get(value)
        if maker is not None:
            if maker.domain or maker.op_type not in SIZE_OPERATORS:
                return ""
            queue.extend((holder, read) for read in reversed(maker.inputs) if read)
        elif holder.outer is None and len(holder.types[value].type.tensor_type.shape.dim) <= 1:
            flags.append(f"--freeze {example_flag(holder.types[value])}")
        else:
            return ""
    return " ".join(flags)

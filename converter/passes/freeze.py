"""Graph inputs become constants, with the values that the user gives; and which inputs TensorRT needs so.

TensorRT wants some operands as constants (axes, ratios) and takes others as shape tensors, whose values an optimization
profile gives (the target of a Reshape, the repeats of a Tile).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from converter.errors import UsageError
from converter.modelfile.model import Model
from converter.passes.scopes import all_graphs
from importers.problem import Problem
from importers.registry import normalise_domain

SHAPE_OPERANDS: Mapping[str, frozenset[int]] = {
    "ConstantOfShape": frozenset({0}),
    "Expand": frozenset({1}),
    "Pad": frozenset({1}),
    "Range": frozenset({0, 1, 2}),
    "Reshape": frozenset({1}),
    "Resize": frozenset({3}),
    "Slice": frozenset({1, 2, 4}),
    "Tile": frozenset({1}),
    "TopK": frozenset({1}),
}
"""By operator, the inputs that TensorRT reads as shape tensors, with values from a profile."""

CONSTANT_OPERANDS: Mapping[str, frozenset[int]] = {
    "AffineGrid": frozenset({1}),
    "BlackmanWindow": frozenset({0}),
    "CenterCropPad": frozenset({1}),
    "Col2Im": frozenset({1, 2}),
    "CumProd": frozenset({1}),
    "CumSum": frozenset({1}),
    "DFT": frozenset({1, 2}),
    "Dropout": frozenset({1, 2}),
    "HammingWindow": frozenset({0}),
    "HannWindow": frozenset({0}),
    "MaxUnpool": frozenset({2}),
    "MelWeightMatrix": frozenset({0, 1, 2, 3, 4}),
    "NonMaxSuppression": frozenset({2, 3, 4}),
    "OneHot": frozenset({1}),
    "Pad": frozenset({3}),
    "Resize": frozenset({1, 2}),
    "STFT": frozenset({1, 3}),
    "Slice": frozenset({3}),
    "Split": frozenset({1}),
    "SplitToSequence": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Trilu": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    **{
        f"Reduce{kind}": frozenset({1})
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}
"""By operator, the inputs that have to be constants: they decide what is computed, not how large it is."""


@dataclass(frozen=True)
class Frozen:
    """An input that became a constant. `value` is written out if it is short."""

    input: str
    dtype: str
    shape: tuple[int, ...]
    value: str

    def __str__(self) -> str:
        return f"input {self.input!r} is frozen to {self.value}: the engine holds for this value only"


def freeze_inputs(model: Model, values: Mapping[str, np.ndarray]) -> tuple[Model, tuple[Frozen, ...]]:
    """The model with initializers instead of these inputs; itself if there are none. UsageError lists all mistakes."""
    if not values:
        return model, ()
    inputs = {value.name: value for value in model.proto.graph.input}
    problems = [p for name, value in values.items() for p in _faults(inputs, name, value)]
    if problems:
        raise UsageError(problems)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
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


def _faults(inputs: Mapping[str, onnx.ValueInfoProto], name: str, value: np.ndarray) -> list[Problem]:
    where = f"--freeze {name}"
    if name not in inputs:
        known = ", ".join(inputs) or "(none)"
        return [Problem(f"the model has no input {name!r}", where, f"one of {known}", "correct the name")]
    type_ = inputs[name].type.tensor_type
    want = helper.tensor_dtype_to_np_dtype(type_.elem_type)
    if value.dtype != want:
        return [
            Problem(f"the value is {value.dtype}", where, str(want), "give the value in the input's type")
        ]
    dims = [d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim]
    fits = len(dims) == value.ndim and all(a in (None, b) for a, b in zip(dims, value.shape, strict=True))
    if type_.HasField("shape") and not fits:
        shown = "x".join("?" if d is None else str(d) for d in dims) or "a scalar"
        what = f"the value has shape {list(value.shape)}"
        return [Problem(what, where, shown, "give a value of the input's shape")]
    return []


_FLOAT_ARITHMETIC = frozenset("Abs Add Cast Ceil Div Floor Identity Max Min Mul Neg Relu Sub".split())  # noqa: SIM905
"""What may stand between a float input and the size that is computed of it."""

_SIZES: Mapping[str, frozenset[int]] = {**SHAPE_OPERANDS, "Loop": frozenset({0})}


def _floats_of_sizes(proto: onnx.ModelProto) -> Iterator[str]:
    """Graph inputs of a float type that decide a size: TensorRT takes integers only for what a profile gives."""
    floats = {v.name for v in proto.graph.input if v.type.tensor_type.elem_type in _FLOAT_TYPES}
    if not floats:
        return
    makers = {name: node for node in proto.graph.node for name in node.output}
    seen: set[str] = set()
    queue = [
        node.input[position]
        for node in proto.graph.node
        if not normalise_domain(node.domain)
        for position in _SIZES.get(node.op_type, ())
        if position < len(node.input)
    ]
    while queue:
        name = queue.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if name in floats:
            yield name
        maker = makers.get(name)
        if maker is not None and maker.op_type in _FLOAT_ARITHMETIC:
            queue.extend(maker.input)


_FLOAT_TYPES = frozenset(
    {
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    }
)


def inputs_to_freeze(proto: onnx.ModelProto) -> frozenset[str]:
    """Names of the graph inputs that some node needs as a constant; through Identity and Cast too."""
    source = {value.name: value.name for value in proto.graph.input}
    needed = set(_floats_of_sizes(proto))
    for graph in all_graphs(proto.graph):
        for node in graph.node:
            if normalise_domain(node.domain):
                continue
            if node.op_type in ("Identity", "Cast") and node.input[0] in source:
                source[node.output[0]] = source[node.input[0]]
            for position in CONSTANT_OPERANDS.get(node.op_type, ()):
                if position < len(node.input) and node.input[position] in source:
                    needed.add(source[node.input[position]])
    return frozenset(needed)

"""Measures the error that one node makes by itself: its outputs against onnxruntime's for the inputs that it had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnx

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.locate.executors.executor import Arrays, Executor, Onnxruntime
from trtsmith.converter.locate.fault_graph import GraphView
from trtsmith.converter.locate.first_steps import first_steps
from trtsmith.converter.locate.probe import Value
from trtsmith.converter.locate.region import Region, region_model
from trtsmith.converter.model.errors import TrtsmithError
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.rounding import PRODUCTS
from trtsmith.converter.verify.sensitivity import shaken
from trtsmith.importers.registry import operators

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that give other numbers each time: no error can be told by them."""

TF32_FACTOR = 2.0
"""Error allowed, over that which operands in TF32 alone make: an engine may add in another order, too."""

LOOPS = frozenset({"If", "Loop", "Scan"})
"""Nodes that are graphs: they round many times, and what they round early may count for more in the end. An elimination of
ill-conditioned matrices on an H200 was beyond the tolerance of one operator."""

FIRST_STEP = 0.01
"""Error of the first step of one of LOOPS that rounding cannot make: TF32 rounds products to 5e-4 of themselves."""


def local_errors(
    view: GraphView, region: Region, given: Arrays, values: Mapping[str, Value], executor: Executor
) -> tuple[Comparison, ...] | None:
    """The region's outputs in `given` against onnxruntime's from its inputs in `given`; () for random operators.

    None where onnxruntime can compute nothing from these inputs, as from sizes that do not fit.
    executor: what made `given`. Where that multiplies in TF32, a product may be as far off as TF32_FACTOR times what
    operands in TF32 do to it. One of LOOPS may be as far off as so many times what inputs that are SHAKEN do to it, but not
    in its first step.
    """
    nodes = [view.nodes[i] for i in region.nodes]
    if any(node.op_type in RANDOM for node in nodes):
        return ()
    model = region_model(view, region, given, [values[name].info() for name in region.outputs])
    inputs = {name: given[name] for name in region.inputs}
    outputs = {name: given[name] for name in region.outputs}
    try:
        expected = Onnxruntime().execute(model, inputs)
    except TrtsmithError:
        return None
    found = compare({name: expected[name] for name in outputs}, outputs)
    if all(c.agrees for c in found):
        return found
    if executor.tf32 and _in_tf32().intersection(node.op_type for node in nodes):
        coarse = {name: to_tf32(array) for name, array in inputs.items()}
        found = _within(found, expected, Onnxruntime().execute(_with_tf32_weights(model), coarse), "TF32")
    if any(node.op_type in LOOPS for node in nodes):
        rng = np.random.default_rng(0)
        moved = {name: shaken(array, rng) for name, array in inputs.items()}
        grown = Onnxruntime().execute(model, moved)
        starts = first_steps(view.model, nodes[-1], expected), first_steps(view.model, nodes[-1], outputs)
        known = first_steps(view.model, nodes[-1], grown)
        found = tuple(
            c if c.agrees or _starts_wrong(c.output, *starts, known) else once
            for c, once in zip(found, _within(found, expected, grown, "rounding in its graph"), strict=True)
        )
    return found


def _starts_wrong(name: str, expected: Arrays, actual: Arrays, moved: Arrays) -> bool:
    """Whether an output was off in the first step, in which no error has grown yet. Each has first steps alone."""
    if name not in expected or expected[name].shape != actual[name].shape:
        return False
    off, grown = (changed_by(expected[name], other[name]) for other in (actual, moved))
    return off > max(FIRST_STEP, TF32_FACTOR * grown)


def _within(
    found: tuple[Comparison, ...], expected: Arrays, coarse: Arrays, what: str
) -> tuple[Comparison, ...]:
    """The comparisons, of which those agree that are no further off than TF32_FACTOR times what `coarse` is."""
    allowed = {c.output: TF32_FACTOR * c.relative for c in compare(expected, coarse)}
    return tuple(
        c
        if c.agrees or not c.max > 0 or c.relative > allowed[c.output]
        else replace(
            c, agrees=True, reason=f"relative error {c.relative:.1e}; {what} explains {allowed[c.output]:.1e}"
        )
        for c in found
    )


def to_tf32(array: np.ndarray) -> np.ndarray:
    """float32 cut to 10 bits of mantissa, as tensor cores read their operands; other types as they are.

    Cutting makes about twice the error of rounding, and with all errors to the same side; some kernels round.
    """
    array = np.asarray(array)
    if array.dtype != np.float32:
        return array
    bits = np.ascontiguousarray(array).view(np.uint32)
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(array), cut, array).reshape(array.shape)


def _with_tf32_weights(model: Model) -> Model:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for tensor in _tensors(proto):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = to_tf32(model.array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model.with_proto(proto)


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in all_graphs(proto.graph):
        yield from graph.initializer
        for node in graph.node:
            yield from (a.t for a in node.attribute if a.type == onnx.AttributeProto.TENSOR)


def _in_tf32() -> frozenset[str]:
    """Operators of which TensorRT rounds float32 operands to TF32, those among them that have products inside."""
    return frozenset({*PRODUCTS, *(name for op in operators() if op.tensor_cores for name in op.op_types)})

"""Finds the type in which TensorRT sums products, with 16-bit engines of one layer compared with float64.

An error above that of rounding the result is the sum's. What converter/rewrite/precision/sums.py and affine.py do rests on
these numbers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.metrics import relative_error
from gpucheck.record import Notes
from harness.jobs import run_jobs
from onnxcoverage.builder import Sizes
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.precision.sums import longest_sum
from trtsmith.converter.rewrite.target import RTX
from trtsmith.importers.dtypes import numpy_dtype

AT_ONCE = 6

TIMEOUT_S = 60.0

WIDER = 1.2
"""Times the error of rounding the result: what is beyond was not summed in float32."""

BATCH = 4


@dataclass(frozen=True)
class Layer:
    """A layer of one node.

    products: that one value of its result sums, 0 for a norm. x: shape of its input; weights: of the others.
    judged:   whether its error contradicts the precision pass; else it is shown only.
    """

    op: str
    products: int
    x: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    fields: Mapping[str, Any]
    judged: bool = True

    @property
    def name(self) -> str:
        return f"{self.op} {self.products}" if self.products else self.op


LAYERS = (
    *(Layer("MatMul", n, (BATCH, 64, n), ((n, 64),), {}) for n in (16, 64, 256, 1024, 4096)),
    *(Layer("Conv 1x1", n, (BATCH, n, 16, 16), ((64, n, 1, 1),), {}) for n in (16, 64, 256, 1024)),
    *(
        Layer("Conv 3x3", 9 * n, (BATCH, n, 16, 16), ((64, n, 3, 3),), {"pads": [1, 1, 1, 1]})
        for n in (16, 64, 256)
    ),
    Layer("Conv 5x5, depthwise", 25, (BATCH, 64, 16, 16), ((64, 1, 5, 5),), {"group": 64}),
    Layer("Conv 1x1, with a bias", 64, (BATCH, 64, 16, 16), ((64, 64, 1, 1), (64,)), {}, judged=False),
    Layer("BatchNormalization", 0, (BATCH, 64, 16, 16), ((64,),) * 4, {}, judged=False),
)


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. A row for each layer and precision."""
    end = time.monotonic() + limit_s
    wrong = done = 0
    for name, finding in run_jobs(__name__, deque(_jobs()), AT_ONCE, TIMEOUT_S, folder, end):
        done += 1
        problem = finding.died or finding.found["problem"]
        if not finding.died:
            notes.row(**finding.found)
        if problem:
            wrong += 1
            notes.failure(f"{name}: {problem}")
    notes.summary(f"{done - wrong} of {done} layers sum as converter/rewrite/precision/sums.py says")


def _jobs() -> dict[str, tuple[Layer, str]]:
    return {f"{layer.name} {flag}": (layer, flag) for layer in LAYERS for flag in FORMATS}


def work(job: str, folder: Path) -> dict[str, Any]:
    """Measures one layer in one precision, in a worker."""
    return measure(*_jobs()[job], folder, open_engine)


def measure(layer: Layer, flag: str, folder: Path, opener: Opener) -> dict[str, Any]:
    """The row of one layer in "fp16" or "bf16"."""
    fmt = FORMATS[flag]
    proto, x = model_of(layer, fmt.elem)
    path = folder / f"{layer.name} {flag}.onnx".replace(" ", "_")
    onnx.save(proto, path)
    row: dict[str, Any] = {"layer": layer.op, "products": layer.products, "precision": flag}
    (found,) = ReferenceEvaluator(in_float64(proto)).run(None, {"x": x.astype(np.float64)})
    right = np.asarray(found)
    rounding = relative_error(right.astype(x.dtype), right)
    try:
        with opener(path, {"x": Sizes((layer.x,) * 3)}, ()) as engine:
            error = relative_error(engine.run({"x": x})["y"], right)
    except EngineError as problem:
        return row | {"problem": f"{problem.verdict}: {problem}"}
    return row | {"error": error, "rounding": rounding, "problem": _problem(layer, flag, error, rounding)}


def model_of(layer: Layer, elem: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """The layer in the type, strongly typed, and an input for it. Statistics of a norm are float32."""
    dtype = numpy_dtype(elem)
    rng = np.random.default_rng([layer.products, *layer.x])
    norm = layer.op == "BatchNormalization"
    arrays = [rng.standard_normal(shape).astype(np.float32 if norm else dtype) for shape in layer.weights]
    if norm:
        arrays[-1] = np.abs(arrays[-1]) + np.float32(0.1)
    names = [f"w{i}" for i in range(len(arrays))]
    node = helper.make_node(layer.op.split()[0].rstrip(","), ["x", *names], ["y"], **layer.fields)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", elem, layer.x)],
        [helper.make_tensor_value_info("y", elem, None)],
        [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(proto), rng.standard_normal(layer.x).astype(dtype)


def in_float64(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The layer with float64 weights and values."""
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    for tensor in wide.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
        )
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return wide


def _problem(layer: Layer, flag: str, error: float, rounding: float) -> str:
    """A contradiction to the precision pass; "" if there is none."""
    fmt = FORMATS[flag]
    longest = longest_sum(RTX, fmt)
    if not layer.judged or (longest is not None and layer.products > longest):
        return ""
    if longest is None:
        allowed, what = WIDER * rounding, "of sums in float32"
    else:  # twice that of two factors and a result which are rounded, each by so much
        allowed, what = 2 * 3**0.5 * rounding, f"of {layer.products} products in {fmt.name}"
    return "" if error <= allowed else f"error {error:.2g}; {allowed:.2g} is that {what}"

"""Runs layers that TensorRT fuses as engines: a product and its typical successors, in every precision.

TensorRT chooses a kernel for a product together with what reads it, and such kernels have been wrong: TensorRT-RTX 1.6.1
leaves out the bias of a gated GELU. Every form is a layer of its own, with weights of its own; those of one product are
some engines. Judged by onnxruntime in float32.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from gpucheck.engine_tables import FORMS
from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.metrics import relative_error
from gpucheck.networks import in_form
from gpucheck.record import Notes
from harness.jobs import run_jobs
from onnxcoverage.builder import Sizes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX
from trtsmith.importers.builder import Builder, Value

ALLOWED = {"fp32": 4e-3, "fp16": 1e-2, "bf16": 6e-2}
"""Ratio of norms: a bias that is left out changes a third of most layers. float32 products are rounded to TF32."""

OPSET = 20
CHANNELS = 32
IN_ONE = 40
"""Layers of an engine."""

JOB_S = 120.0

Act = Callable[[Builder, Value], Value]
Product = Callable[[Value], Value]


class Layers(Builder):
    """A graph of layers with weights from one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(OPSET)
        self._rng = np.random.default_rng(seed)

    def weight(self, *shape: int, products: int = CHANNELS) -> np.ndarray:
        """Normal numbers scaled so that a sum of this many products keeps its input's size."""
        return (self._rng.standard_normal(shape) / math.sqrt(products)).astype(np.float32)

    def bias(self) -> np.ndarray:
        return self.weight(CHANNELS, products=2)

    def conv(self, x: Value, *kernel: int, group: int = 1, **attributes: Any) -> Value:
        inside = CHANNELS // group
        weight = self.weight(CHANNELS, inside, *kernel, products=inside * math.prod(kernel))
        made: Value = self.Conv(x, weight, self.bias(), group=group, **attributes)
        return made


_MATRIX, _IMAGE = (2, 24, CHANNELS), (2, CHANNELS, 12, 16)
_SAME: Any = {"pads": [1, 1, 1, 1]}

PRODUCTS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], Callable[[Layers, Value], Value]]] = {
    "MatMul": (_MATRIX, _MATRIX, lambda g, x: g.MatMul(x, g.weight(CHANNELS, CHANNELS))),
    "MatMul, bias": (_MATRIX, _MATRIX, lambda g, x: g.MatMul(x, g.weight(CHANNELS, CHANNELS)) + g.bias()),
    "Gemm": ((24, CHANNELS),) * 2
    + (lambda g, x: g.Gemm(x, g.weight(CHANNELS, CHANNELS), g.bias(), transB=1),),
    "Conv 1x1": (_IMAGE, _IMAGE, lambda g, x: g.conv(x, 1, 1)),
    "Conv 3x3": (_IMAGE, _IMAGE, lambda g, x: g.conv(x, 3, 3, **_SAME)),
    "Conv 3x3, stride 2": (
        _IMAGE,
        (2, CHANNELS, 6, 8),
        lambda g, x: g.conv(x, 3, 3, strides=[2, 2], **_SAME),
    ),
    "Conv 3x3, dilated": (_IMAGE, _IMAGE, lambda g, x: g.conv(x, 3, 3, dilations=[2, 2], pads=[2, 2, 2, 2])),
    "Conv 3x3, depthwise": (_IMAGE, _IMAGE, lambda g, x: g.conv(x, 3, 3, group=CHANNELS, **_SAME)),
    "Conv 3x3, 4 groups": (_IMAGE, _IMAGE, lambda g, x: g.conv(x, 3, 3, group=4, **_SAME)),
    "Conv, one axis": ((2, CHANNELS, 40),) * 2 + (lambda g, x: g.conv(x, 3, pads=[1, 1]),),
    "ConvTranspose": (
        _IMAGE,
        (2, CHANNELS, 24, 32),
        lambda g, x: g.ConvTranspose(x, g.weight(CHANNELS, CHANNELS, 2, 2), g.bias(), strides=[2, 2]),
    ),
}
"""By name, the shapes of input and output, and the product."""

_OPERATORS = (
    "Relu LeakyRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Mish Softplus Softsign Tanh Erf Abs Gelu"
)
ACTIVATIONS: Mapping[str, Act] = {
    **{name: lambda g, p, name=name: g.write(name, p) for name in _OPERATORS.split()},  # type: ignore[misc]
    "Relu6": lambda g, p: g.Clip(p, 0.0, 6.0),
    "SiLU": lambda g, p: p * g.Sigmoid(p),
    "GELU, erf": lambda g, p: p * 0.5 * (g.Erf(p * math.sqrt(0.5)) + 1.0),
    "GELU, tanh": lambda g, p: p * 0.5 * (g.Tanh((p + p * p * p * 0.044715) * math.sqrt(2 / math.pi)) + 1.0),
    "quick GELU": lambda g, p: p * g.Sigmoid(p * 1.702),
    "squared Relu": lambda g, p: g.Relu(p) * g.Relu(p),
}

PLACES: Mapping[str, Callable[[Builder, Act, Value, Value, Product], Value]] = {
    "alone": lambda g, act, p, h, product: act(g, p),
    "times a value": lambda g, act, p, h, product: act(g, p) * h,
    "times another product": lambda g, act, p, h, product: product(p) * act(g, p),
    "times a number": lambda g, act, p, h, product: act(g, p) * 1.7,
    "plus a value": lambda g, act, p, h, product: act(g, p) + h,
    "of a sum": lambda g, act, p, h, product: act(g, p + h),
    "of a product with a value": lambda g, act, p, h, product: act(g, p * h),
    "minus a part of the product": lambda g, act, p, h, product: act(g, p) - p * 0.3,
    "before another product": lambda g, act, p, h, product: h + product(act(g, p)),
}
"""Where an activation stands: of the product p and a value h of its shape. product: another one, of one of that shape."""


OTHERS: Mapping[str, tuple[int, Callable[[Layers, Value, Value], Value]]] = {
    "a bias": (2, lambda g, p, h: p + g.weight(1)),
    "its square root": (2, lambda g, p, h: g.Sqrt(g.Abs(p) + 0.1)),
    "the larger": (2, lambda g, p, h: g.Max(p, h)),
    "softmax": (2, lambda g, p, h: g.Softmax(p, axis=-1)),
    "a mean": (2, lambda g, p, h: g.ReduceMean(p, axes=[-1])),
    "layer norm": (2, lambda g, p, h: _layer_norm(g, p + h)),
    "root mean square norm": (2, lambda g, p, h: p / g.Sqrt(g.ReduceMean(p * p, axes=[-1]) + 1e-3)),
    "halves, gated": (2, lambda g, p, h: _halves(g, p)),
    "a transpose": (2, lambda g, p, h: g.Relu(g.Transpose(p))),
    "a concatenation": (2, lambda g, p, h: g.Relu(g.Concat(p, h, axis=-1))),
    "batch norm": (
        3,
        lambda g, p, h: g.BatchNormalization(p, g.bias(), g.bias(), g.bias(), np.abs(g.bias()) + 0.5),
    ),
    "instance norm": (3, lambda g, p, h: g.InstanceNormalization(p, g.bias(), g.bias())),
    "PRelu": (4, lambda g, p, h: g.PRelu(p, g.bias().reshape(-1, 1, 1))),
    "largest of 2x2": (4, lambda g, p, h: g.MaxPool(p, kernel_shape=[2, 2], strides=[2, 2])),
    "mean of 3x3": (4, lambda g, p, h: g.AveragePool(g.Relu(p), kernel_shape=[3, 3], **_SAME)),
    "twice the size": (4, lambda g, p, h: g.Resize(p, None, [1.0, 1.0, 2.0, 2.0], mode="nearest")),
    "squeeze and excitation": (4, lambda g, p, h: p * g.Sigmoid(g.conv(g.GlobalAveragePool(p), 1, 1)) + h),
    "pixel shuffle": (4, lambda g, p, h: g.Relu(g.DepthToSpace(p, blocksize=2))),
}
"""What else stands behind a product: the least rank, and the layer."""


def _halves(g: Layers, p: Value) -> Value:
    one, other = g.Split(p, outputs=2, axis=-1, num_outputs=2)
    return one * g.Sigmoid(other)


def _layer_norm(g: Layers, p: Value) -> Value:
    centred = p - g.ReduceMean(p, axes=[-1])
    return centred / g.Sqrt(g.ReduceMean(centred * centred, axes=[-1]) + 1e-5) * 1.3 + 0.2


def layers_of(product: str) -> dict[str, Callable[[Layers, Value, Value], Value]]:
    """Writers of a layer from inputs x and h, by name. A product that changes the size is not followed by a second one."""
    x_shape, y_shape, make = PRODUCTS[product]
    found: dict[str, Callable[[Layers, Value, Value], Value]] = {}
    for name, act in ACTIVATIONS.items():
        for place, written in PLACES.items():
            if x_shape == y_shape or "another" not in place:
                found[f"{name}, {place}"] = lambda g, x, h, act=act, written=written: written(  # type: ignore[misc]
                    g, act, make(g, x), h, lambda value: make(g, value)
                )
    for name, (rank, other) in OTHERS.items():
        if len(y_shape) >= rank and (rank == 2 or y_shape[1] == CHANNELS):
            found[name] = lambda g, x, h, other=other: other(g, make(g, x), h)  # type: ignore[misc]
    return found


def model_of(product: str, part: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[str]]:
    """A graph of up to IN_ONE layers, its inputs, and the layers' names in the order of the outputs."""
    layers = list(layers_of(product).items())[part * IN_ONE : (part + 1) * IN_ONE]
    g = Layers(part)
    x, h = g.inputs("x", "h")
    results = g.distinct([layer(g, x, h) for _, layer in layers])
    rng = np.random.default_rng([part, len(product)])
    feeds = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in zip("xh", PRODUCTS[product][:2], strict=True)
    }
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        g.nodes,
        "layers",
        [helper.make_tensor_value_info(name, floats, array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(value.name, floats, None) for value in results],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    return onnx.shape_inference.infer_shapes(proto), feeds, [name for name, _ in layers]


def jobs() -> Iterator[str]:
    for form in FORMS:
        for product in PRODUCTS:
            for part in range(math.ceil(len(layers_of(product)) / IN_ONE)):
                yield f"{form}|{product}|{part}"


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. A row for each product and form; fails for any wrong layer, and any missing engine."""
    end = time.monotonic() + limit_s
    counts: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], float] = {}
    for job, finding in run_jobs(__name__, deque(jobs()), os.cpu_count() or 1, JOB_S, folder, end):
        form, product, _ = job.split("|")
        errors = finding.found.get("errors", {})
        counts[product, form] += len(errors)
        problem = finding.died or finding.found.get("problem")
        if problem:
            wrong[product, form] += 1
            notes.failure(f"{job}: {problem}")
        for layer, error in errors.items():
            worst[product, form] = max(worst.get((product, form), 0.0), error)
            if not error <= ALLOWED[form]:
                wrong[product, form] += 1
                notes.failure(f"{form}, {product}, {layer}: off by {error:.1e}, allowed {ALLOWED[form]:g}")
    for (product, form), count in sorted(counts.items()):
        most = worst.get((product, form))
        notes.row(product=product, form=form, layers=count, wrong=wrong[product, form], worst=most)
    notes.summary(
        f"{counts.total() - wrong.total()} of {counts.total()} layers are right, in {', '.join(FORMS)}"
    )


def work(job: str, folder: Path) -> dict[str, Any]:
    return measure(job, folder, open_engine)


def measure(job: str, folder: Path, opener: Opener) -> dict[str, Any]:
    """The engine's error by layer, as a ratio of norms."""
    form, product, part = job.split("|")
    proto, feeds, names = model_of(product, int(part))
    here = job.replace("|", "_").replace(" ", "_")  # the folder is that of other workers, too
    original, path = folder / f"{here}.onnx", folder / f"{here}.trt.onnx"
    onnx.save(proto, original)
    model = load_model(original)
    wanted = run(model, feeds, optimise=False)
    reduced = in_form(rewrite(model, RTX), form, feeds)
    save_model(reduced.model, path)
    try:
        sizes = {name: Sizes((array.shape,) * 3) for name, array in feeds.items()}
        with opener(path, sizes, reduced.io_types) as engine:
            found = engine.run(feeds)
    except EngineError as problem:
        return {"problem": f"{problem.verdict}: {problem}"}
    outputs = zip(names, wanted.items(), strict=True)
    return {"errors": {layer: relative_error(found[name], array) for layer, (name, array) in outputs}}

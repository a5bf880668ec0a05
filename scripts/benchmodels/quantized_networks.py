"""Writes networks as quantisation tools leave them: of random weights, in the forms that onnxruntime's quantisation has."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 13


class FloatGraph:
    """A graph that is written node by node, with Constant nodes for numbers as PyTorch's exporter writes them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def do(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """One node; the name of its result."""
        number = len(self.nodes)
        name = f"/{op_type}_{number}_output"
        self.nodes.append(helper.make_node(op_type, inputs, [name], f"/{op_type}_{number}", **attributes))
        return name

    def number(self, value: Any, dtype: type = np.float32) -> str:
        return self.do("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def weight(self, *shape: int, about: float = 0.0) -> str:
        """Normally distributed, such that sums over all but the last or first axis stay about as large."""
        terms = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        values = about + self._random.standard_normal(shape) / np.sqrt(max(terms, 1))
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def model(self, result: str, given: list[Any], made: list[Any]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [result], ["output"], "/output"))
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("input", given), ("output", made))
        ]
        graph = helper.make_graph(self.nodes, "network", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def transformer(layers: int, width: int, heads: int = 8) -> onnx.ModelProto:
    """An encoder of any batch and length, its normalisations and GELU in single operators and its shapes computed."""
    g = FloatGraph()
    x = "input"
    for _ in range(layers):
        y = _normalised(g, x, width)
        q, k, v = (
            _heads(g, _linear(g, y, width, width), heads, width, order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = g.do("Div", g.do("MatMul", q, k), g.number(np.sqrt(width / heads)))
        mixed = g.do("MatMul", g.do("Softmax", scores, axis=-1), v)
        joined = g.do("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = g.do("Concat", *_sizes(g, joined), g.number([width], np.int64), axis=0)
        x = g.do("Add", x, _linear(g, g.do("Reshape", joined, shape), width, width))
        y = _linear(g, _normalised(g, x, width), width, 4 * width)
        curve = g.do("Add", g.do("Erf", g.do("Div", y, g.number(np.sqrt(2)))), g.number(1))
        y = g.do("Mul", g.do("Mul", y, curve), g.number(0.5))
        x = g.do("Add", x, _linear(g, y, 4 * width, width))
    return g.model(x, ["batch", "length", width], ["batch", "length", width])


def _normalised(g: FloatGraph, x: str, width: int) -> str:
    centred = g.do("Sub", x, g.do("ReduceMean", x, axes=[-1]))
    variance = g.do("ReduceMean", g.do("Pow", centred, g.number(2)), axes=[-1])
    scaled = g.do("Div", centred, g.do("Sqrt", g.do("Add", variance, g.number(1e-5))))
    return g.do("Add", g.do("Mul", scaled, g.weight(width, about=1.0)), g.weight(width))


def _linear(g: FloatGraph, x: str, size: int, made: int) -> str:
    return g.do("Add", g.do("MatMul", x, g.weight(size, made)), g.weight(made))


def _sizes(g: FloatGraph, x: str) -> list[str]:
    """Batch and length, as int64[1]."""
    single = (g.do("Gather", g.do("Shape", x), g.number(axis, np.int64), axis=0) for axis in (0, 1))
    return [g.do("Unsqueeze", size, g.number([0], np.int64)) for size in single]


def _heads(g: FloatGraph, x: str, heads: int, width: int, order: list[int]) -> str:
    parts = [g.number([size], np.int64) for size in (heads, width // heads)]
    return g.do("Transpose", g.do("Reshape", x, g.do("Concat", *_sizes(g, x), *parts, axis=0)), perm=order)


def convolutions(blocks: int, channels: int) -> onnx.ModelProto:
    """Inverted residual blocks with squeeze-and-excitation, as in networks for telephones, of images of any size."""
    g = FloatGraph()

    def conv(x: str, size: int, made: int, kernel: int = 1, group: int = 1, *, clip: bool = True) -> str:
        form = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "group": group}
        y = g.do("Conv", x, g.weight(made, size // group, kernel, kernel), g.weight(made), **form)
        return g.do("Clip", y, g.number(0), g.number(6)) if clip else y

    x = conv("input", 3, channels, 3)
    for _ in range(blocks):
        y = conv(conv(x, channels, 4 * channels), 4 * channels, 4 * channels, 3, 4 * channels)
        y = conv(y, 4 * channels, channels, clip=False)
        gate = conv(g.do("GlobalAveragePool", y), channels, channels // 4)
        gate = g.do("HardSigmoid", conv(gate, channels // 4, channels, clip=False))
        x = g.do("Add", x, g.do("Mul", y, gate))
    return g.model(g.do("GlobalAveragePool", x), ["batch", 3, "height", "width"], ["batch", channels, 1, 1])


def write_quantized(model: onnx.ModelProto, form: str, path: Path, shape: tuple[int, ...]) -> Path:
    """The network in 8 bits. form: "dynamic", "qdq" or "operators". shape: of the input that it is calibrated with."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        onnx.save(model, f"{folder}/float.onnx")
        if form == "dynamic":
            quantize_dynamic(f"{folder}/float.onnx", path, weight_type=QuantType.QUInt8)
        else:
            quantize_static(
                f"{folder}/float.onnx",
                path,
                _OneSample({"input": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}),
                quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
    return path


class _OneSample:
    """What onnxruntime's calibration reads: one set of inputs, and the end."""

    def __init__(self, feeds: Mapping[str, np.ndarray]) -> None:
        self._left = [feeds]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


NETWORKS: Mapping[str, tuple[Callable[[], onnx.ModelProto], str, tuple[int, ...]]] = {
    "transformer, dynamic": (lambda: transformer(28, 576), "dynamic", (1, 16, 576)),
    "convolutions, Q/DQ": (lambda: convolutions(83, 192), "qdq", (1, 3, 32, 32)),
    "convolutions, integer operators": (lambda: convolutions(105, 160), "operators", (1, 3, 32, 32)),
}
"""By name: the network in float, the form that it gets, and the shape of its input. 3,600 nodes, 3,600 and 1,800."""

"""Draws small networks in float64, in float32, or with values perturbed like rounding to a precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

UNIT: Mapping[str, float] = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Unit roundoff of each precision."""

STORED: Mapping[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}

PRODUCTS = {"Conv": 2, "ConvTranspose": 2, "MatMul": 2, "LSTM": 3}
"""Operators that multiply, with how many of their first inputs are factors."""


@dataclass
class Net:
    """A graph under construction. seed: of the weights.

    precision: in which values are perturbed; "": none is. draw: which perturbation. wide: float64 in place of float32.
    plant: an error in the graph: "bias dropped" or "weights of a channel changed", of the first that there is.
    """

    seed: int
    precision: str = ""
    draw: int = 0
    wide: bool = False
    plant: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, *shape: int, dtype: type = np.float32, high: int = 2) -> str:
        name = self.name("input")
        rng = np.random.default_rng(self.seed + 1)
        floats = dtype is np.float32
        value = rng.standard_normal(shape) if floats else rng.integers(0, high, shape)
        self.feeds[name] = value.astype(np.float32 if floats else dtype)
        elem = (TensorProto.DOUBLE if self.wide else TensorProto.FLOAT) if floats else TensorProto.INT64
        self.inputs.append(helper.make_tensor_value_info(name, elem, shape))
        return name

    def const(self, value: Any, dtype: type = np.float32) -> str:
        name = self.name("c")
        array: np.ndarray = np.asarray(value, dtype)
        if dtype is np.float32 and self.precision in STORED:
            array = array.astype(STORED[self.precision]).astype(np.float32)
        if dtype is np.float32 and self.wide:
            array = array.astype(np.float64)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Weights of variance 1 / fan-in or of this scale, rounded to the precision as in every engine."""
        deviation = scale if scale is not None else 1.0 / np.sqrt(np.prod(shape[1:]) or 1)
        value = (self.rng.standard_normal(shape) * deviation).astype(np.float32)
        dropped = self.plant == "bias dropped" and len(shape) == 1
        if dropped or (self.plant == "weights of a channel changed" and len(shape) > 1):
            self.plant = ""
            value = value * 0 if dropped else np.concatenate([value[:1] * np.float32(1.25), value[1:]])
        return self.const(value)

    def bias(self, size: int, scale: float = 0.3) -> str:
        return self.weight(size, scale=scale)

    def op(self, kind: str, *inputs: str, outputs: int = 1, exact: bool = False, **attributes: Any) -> str:
        """The first output of a node. exact: its results need no rounding, as those of Reshape."""
        given = list(inputs)
        if self.precision == "tf32" and kind in PRODUCTS:
            count = PRODUCTS[kind]
            given[:count] = [self._perturbed(value) for value in given[:count]]
        names = [self.name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, given, names, **attributes))
        if not exact and self.precision and self.precision != "tf32":
            names = [self._perturbed(value) for value in names]
        return names[0]

    def _perturbed(self, value: str) -> str:
        """The value times 1 + unit * u, with random u in [-1, 1] for each element."""
        noise, factor, result = (self.name("perturbed") for _ in range(3))
        unit = UNIT[self.precision]
        seed = float(self.draw * 10_000 + self.count)
        make = helper.make_node
        self.nodes += [
            make("RandomUniformLike", [value], [noise], low=-unit, high=unit, seed=seed),
            make("Mul", [value, noise], [factor]),
            make("Add", [value, factor], [result]),
        ]
        return result

    def reshape(self, value: str, *shape: int) -> str:
        return self.op("Reshape", value, self.const(shape, np.int64), exact=True)

    def output(self, value: str, name: str, dtype: int = 0) -> None:
        elem = dtype or (TensorProto.DOUBLE if self.wide else TensorProto.FLOAT)
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, elem, None))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    # parts of networks

    def conv(self, x: str, c: int, k: int, size: int = 3, act: str = "Relu", **attributes: Any) -> str:
        pad = [size // 2] * 4
        w = self.weight(k, c // attributes.get("group", 1), size, size)
        y = self.op("Conv", x, w, self.bias(k), pads=pad, **attributes)
        return self.op(act, y) if act else y

    def dense(self, x: str, c: int, k: int, act: str = "") -> str:
        y = self.op("Add", self.op("MatMul", x, self.weight(c, k, scale=c**-0.5)), self.bias(k))
        return self.op(act, y) if act else y

    def norm(self, x: str, c: int) -> str:
        scale = self.const(1 + 0.1 * self.rng.standard_normal(c))
        return self.op("LayerNormalization", x, scale, self.bias(c, 0.1), axis=-1)

    def attention(self, x: str, n: int, c: int) -> str:
        q, k, v = (self.dense(x, c, c) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 2, 1], exact=True))
        scaled = self.op("Mul", scores, self.const(c**-0.5))
        return self.dense(self.op("MatMul", self.op("Softmax", scaled, axis=-1), v), c, c)


def classifier(net: Net, s: int) -> None:
    x = net.input(2 + s, 64)
    for _ in range(2 + s):
        x = net.dense(x, 64, 64, "Relu")
    logits = net.dense(x, 64, 200)
    net.output(logits, "logits")
    net.output(net.op("Softmax", logits, axis=-1), "probabilities")


def cnn(net: Net, s: int) -> None:
    x, c = net.input(2, 3, 24, 24), 3
    for k in (8, 16, 24)[: 2 + s // 2]:
        x = net.op("MaxPool", net.conv(x, c, k), kernel_shape=[2, 2], strides=[2, 2], exact=True)
        c = k
    x = net.op("Flatten", net.op("GlobalAveragePool", x), exact=True)
    net.output(net.dense(x, c, 100), "logits")


def residual(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 3, 20, 20), 3, 12)
    for _ in range(2 + 2 * s):
        x = net.op("Relu", net.op("Add", x, net.conv(net.conv(x, 12, 12), 12, 12, act="")))
    net.output(x, "features")


def yolo(net: Net, s: int) -> None:
    n = 12 + 4 * s
    x = net.conv(net.conv(net.input(1, 3, n, n), 3, 16), 16, 16)
    boxes = net.op("Mul", net.op("Sigmoid", net.conv(x, 16, 4, 1, "")), net.const(640.0))
    raw = net.conv(x, 16, 20, 1, "")
    scores = net.op("Sigmoid", net.op("Sub", raw, net.const(5.0)))
    net.output(net.reshape(net.op("Concat", boxes, scores, axis=1, exact=True), 1, 24, n * n), "output0")


def segmentation(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 3, 16 + 8 * s, 16), 3, 12)
    down = net.conv(net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], exact=True), 12, 16)
    up = net.op("ConvTranspose", down, net.weight(16, 12, 2, 2, scale=0.2), strides=[2, 2])
    logits = net.conv(net.op("Add", x, up), 12, 6, 1, "")
    net.output(logits, "logits")
    net.output(net.op("ArgMax", logits, axis=1, keepdims=0, exact=True), "classes", TensorProto.INT64)


def transformer(net: Net, s: int) -> None:
    n, c = 24, 32
    x = net.dense(net.input(1, n, 16), 16, c)
    for _ in range(1 + s):
        x = net.op("Add", x, net.attention(net.norm(x, c), n, c))
        x = net.op("Add", x, net.dense(net.dense(net.norm(x, c), c, 2 * c, "Tanh"), 2 * c, c))
    net.output(net.norm(x, c), "hidden")


def mobile(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 3, 20, 20), 3, 16, act="HardSwish")
    for _ in range(1 + s):
        x = net.conv(net.conv(x, 16, 16, group=16, act="HardSwish"), 16, 16, 1, "")
        gate = net.op("Sigmoid", net.conv(net.op("GlobalAveragePool", x), 16, 16, 1, ""))
        x = net.op("Mul", x, gate)
    net.output(x, "features")


def recurrent(net: Net, s: int) -> None:
    n, c, h = 10 + 5 * s, 16, 24
    x = net.input(n, 2, c)
    w, r = net.weight(1, 4 * h, c), net.weight(1, 4 * h, h)
    y = net.op("LSTM", x, w, r, net.weight(1, 8 * h, scale=0.1), hidden_size=h, outputs=2)
    net.output(net.reshape(y, n, 2, h), "states")


def embedding(net: Net, s: int) -> None:
    x = net.conv(net.input(2, 3, 12 + 4 * s, 12), 3, 32)
    x = net.dense(net.op("Flatten", net.op("GlobalAveragePool", x), exact=True), 32, 128)
    length = net.op("ReduceL2", x, axes=[1], keepdims=1)
    net.output(net.op("Div", x, length), "embedding")


def detector(net: Net, s: int) -> None:
    n = 60 + 40 * s
    x = net.norm(net.dense(net.input(1, n, 24), 24, 32), 32)
    net.output(net.op("Sigmoid", net.dense(x, 32, 4)), "boxes")
    logits = net.op("Sub", net.dense(x, 32, 12), net.const(4.0))
    net.output(net.op("Sigmoid", logits), "scores")
    net.output(net.op("ArgMax", logits, axis=2, keepdims=0, exact=True), "labels", TensorProto.INT64)


def upscaler(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 3, 12, 12 + 4 * s), 3, 16)
    x = net.op("DepthToSpace", net.conv(x, 16, 12, act=""), blocksize=2, exact=True)
    x = net.op("Mul", net.op("Sigmoid", x), net.const(255.0))
    net.output(x, "image")


def style(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 3, 16, 16), 3, 12, act="")
    for _ in range(1 + s):
        scale = net.const(1 + 0.1 * net.rng.standard_normal(12))
        x = net.op("Relu", net.op("InstanceNormalization", x, scale, net.bias(12)))
        x = net.conv(x, 12, 12, act="")
    net.output(net.op("Tanh", net.conv(x, 12, 3, 1, "")), "image")


def depth(net: Net, s: int) -> None:
    x = net.conv(net.conv(net.input(1, 3, 16, 16 + 8 * s), 3, 16), 16, 16)
    disparity = net.op("Softplus", net.conv(x, 16, 1, act=""))
    net.output(net.op("Reciprocal", net.op("Add", disparity, net.const(0.05))), "depth")


def speech(net: Net, s: int) -> None:
    n = 40 + 20 * s
    x = net.input(1, 16, n)
    for c in (16, 24):
        x = net.op("Conv", x, net.weight(24, c, 5), net.bias(24), pads=[2, 2])
        x = net.op("Elu", x)
    x = net.dense(net.op("Transpose", x, perm=[0, 2, 1], exact=True), 24, 30)
    net.output(net.op("LogSoftmax", x, axis=-1), "log_probabilities")


def text(net: Net, s: int) -> None:
    ids = net.input(2, 16 + 8 * s, dtype=np.int64, high=100)
    x = net.op("Gather", net.weight(100, 32, scale=1.0), ids, exact=True)
    x = net.op("Add", x, net.attention(net.norm(x, 32), 16 + 8 * s, 32))
    net.output(net.op("ReduceMean", x, axes=[1], keepdims=0), "sentence")
    net.output(x, "tokens")


def keypoints(net: Net, s: int) -> None:
    x = net.conv(net.conv(net.input(1, 3, 16 + 8 * s, 16), 3, 16), 16, 16)
    maps = net.op("Mul", net.conv(x, 16, 5, act=""), net.const(3.0))
    net.output(net.op("Sigmoid", net.op("Sub", maps, net.const(8.0))), "heatmaps")


def scaled(net: Net, s: int) -> None:
    """A network whose channels are each a tenth of the previous one."""
    x = net.conv(net.conv(net.input(1, 3, 16, 16 + 8 * s), 3, 16), 16, 6, act="")
    net.output(net.op("Mul", x, net.const(10.0 ** -np.arange(6).reshape(6, 1, 1))), "maps")


def autoencoder(net: Net, s: int) -> None:
    x = net.input(3, 100)
    for c, k in ((100, 40), (40, 8 + 4 * s), (8 + 4 * s, 40)):
        x = net.dense(x, c, k, "Tanh")
    net.output(net.dense(x, 40, 100), "restored")


def flow(net: Net, s: int) -> None:
    """A network of differences between nearly equal features, where rounding errors are relatively large."""
    x = net.conv(net.input(1, 3, 16, 16 + 8 * s), 3, 12, act="Tanh")
    moved = net.op("Mul", x, net.const(1.02))
    y = net.op("Sub", net.conv(x, 12, 12, 1, ""), net.op("Mul", moved, net.const(0.5)))
    net.output(net.conv(y, 12, 2, act=""), "flow")


def bev(net: Net, s: int) -> None:
    x = net.conv(net.input(1, 8, 14 + 4 * s, 14), 8, 16)
    net.output(net.op("Exp", net.conv(x, 16, 3, 1, "")), "sizes")
    net.output(net.op("Clip", net.conv(x, 16, 2, 1, ""), net.const(-1.0), net.const(1.0)), "offsets")
    net.output(net.op("Sigmoid", net.conv(x, 16, 10, 1, "")), "heat")


FAMILIES: Sequence[Callable[[Net, int], None]] = (
    classifier, cnn, residual, yolo, segmentation, transformer, mobile, recurrent, embedding, detector,
    upscaler, style, depth, speech, text, keypoints, scaled, autoencoder, flow, bev,
)  # fmt: skip
SIZES = 3
"""Networks of each family."""

TUNED, HELD_OUT = 1000, 5000
"""Where seeds of weights and inputs start: of the networks that the bounds were chosen with, and of those that were kept."""


def names() -> list[str]:
    return [f"{family.__name__}{size}" for family in FAMILIES for size in range(SIZES)]


def build(name: str, start: int = TUNED, **options: Any) -> Net:
    """The network with this name. start: TUNED or HELD_OUT. options: as of Net."""
    index = names().index(name)
    net = Net(seed=start + index, **options)
    FAMILIES[index // SIZES](net, index % SIZES)
    return net

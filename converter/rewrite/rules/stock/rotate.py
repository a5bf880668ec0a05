"""Rewrites BEVFormer_tensorrt's rotation of an image as a grid and GridSample.

Source: DerryHub/BEVFormer_tensorrt, det2trt/models/functions/rotate.py and TensorRT/plugin/rotate/rotateKernel.cu: an image
[C, H, W] turned counter-clockwise by an angle in degrees about a centre (x, y) in pixels; outside is zero. Its int8 form,
with scales of its own, is not in ONNX files.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.stock.sampling import MODES, OPSET, TIES, grid_sample, known_number
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    too_old,
    wide,
)

_NAMES = ("RotateTRT", "RotateTRT2")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given = settings(node, interpolation=int)
    if isinstance(given, Refusal):
        return given
    mode = known_number(given["interpolation"], MODES[:2], "interpolation")
    if isinstance(mode, Refusal):
        return mode
    dtype = str(node.dtype(0))
    if node.opset < OPSET:
        return too_old(node, OPSET, "GridSample")
    w = Writer(node)
    image = w.unsqueeze(wide(w, "x0", dtype), [0])
    sampled = grid_sample(w, image, _grid(w), mode, "zeros", False)
    narrow(w, w.squeeze(sampled, [0]), dtype, "y0")
    return Replacement(w.nodes(), "a turned grid and GridSample", numerics=TIES if mode == "nearest" else "")


def _grid(w: Writer) -> str:
    """Where in the image, from -1 to 1, each pixel of the result comes from: [1, H, W, 2] in float32."""
    half, minus = w.number(0.5, "float32"), w.number(-np.pi / 180, "float32")
    angle = w.do("Mul", w.reshape(wide(w, "x1", w.node.dtype(1)), [1, 1]), minus)
    cos, sin = w.do("Cos", angle), w.do("Sin", angle)
    centre = w.reshape(wide(w, "x2", w.node.dtype(2)), [2])
    places, middles, halves = [], [], []
    for number, (axis, order) in enumerate(((2, [1, -1]), (1, [-1, 1]))):
        size = w.size("x0", axis)
        length = w.do("Mul", w.cast(size, "float32"), half)
        offsets = w.do("Sub", w.do("Add", w.cast(w.arange(size), "float32"), half), length)
        middle = w.do("Sub", w.do("Gather", centre, w.ints(number), axis=0), length)
        places.append(w.do("Sub", w.reshape(offsets, order), middle))  # from the centre of the rotation
        middles.append(middle)
        halves.append(length)
    x, y = places
    turned = (
        w.do("Add", w.do("Mul", cos, x), w.do("Mul", sin, y)),
        w.do("Sub", w.do("Mul", cos, y), w.do("Mul", sin, x)),
    )
    columns = [
        w.unsqueeze(w.do("Div", w.do("Add", part, middle), length), [0, 3])
        for part, middle, length in zip(turned, middles, halves, strict=True)
    ]
    return w.concat(columns, 3)


STOCK_ROTATE = NodeRule(
    "stock-rotate",
    "BEVFormer_tensorrt's rotation becomes GridSample",
    kinds(*_NAMES, domains=("custom_op", "custom")),
    checked(dict.fromkeys(_NAMES, PluginPorts(3, floats=(0, 1, 2))), _rewrite),
    opset=OPSET,
)

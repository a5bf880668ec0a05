"""Rewrites BEVFormer_tensorrt's rotation of an image as a grid and GridSample.

Source: DerryHub/BEVFormer_tensorrt, det2trt/models/functions/rotate.py and TensorRT/plugin/rotate/rotateKernel.cu: an image
[C, H, W] turned counter-clockwise by an angle in degrees about a centre (x, y) in pixels; outside is zero. Its int8 form,
with scales of its own, is not in ONNX files.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
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
    image = w.Unsqueeze(wide(w, w.x[0], dtype), axes=[0])
    sampled = grid_sample(w, image, _grid(w), mode, "zeros", False)
    result = narrow(w, w.Squeeze(sampled, axes=[0]), dtype)
    return Replacement(
        w.finish(result), "a turned grid and GridSample", numerics=TIES if mode == "nearest" else ""
    )


def _grid(w: Writer) -> Value:
    """Where in the image, from -1 to 1, each pixel of the result comes from: [1, H, W, 2] in float32."""
    half, minus = 0.5, -np.pi / 180
    angle = w.Mul(w.Reshape(wide(w, w.x[1], w.node.dtype(1)), shape=[1, 1]), minus)
    cos, sin = w.Cos(angle), w.Sin(angle)
    centre = w.Reshape(wide(w, w.x[2], w.node.dtype(2)), shape=[2])
    places, middles, halves = [], [], []
    for number, (axis, order) in enumerate(((2, [1, -1]), (1, [-1, 1]))):
        size = w.size(w.x[0], axis)
        length = w.Mul(w.Cast(size, to="float32"), half)
        offsets = w.Sub(w.Add(w.Cast(w.arange(size), to="float32"), half), length)
        middle = w.Sub(w.Gather(centre, [number], axis=0), length)
        places.append(w.Sub(w.Reshape(offsets, shape=order), middle))  # from the centre of the rotation
        middles.append(middle)
        halves.append(length)
    x, y = places
    turned = (
        w.Add(w.Mul(cos, x), w.Mul(sin, y)),
        w.Sub(w.Mul(cos, y), w.Mul(sin, x)),
    )
    columns = [
        w.Unsqueeze(w.Div(w.Add(part, middle), length), axes=[0, 3])
        for part, middle, length in zip(turned, middles, halves, strict=True)
    ]
    return w.Concat(*columns, axis=3)


STOCK_ROTATE = NodeRule(
    "stock-rotate",
    "BEVFormer_tensorrt's rotation becomes GridSample",
    kinds(*_NAMES, domains=("custom_op", "custom")),
    checked(dict.fromkeys(_NAMES, PluginPorts(3, floats=(0, 1, 2))), _rewrite),
    opset=OPSET,
)

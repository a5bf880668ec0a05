"""QuantizeLinear that TensorRT refuses, or computes in another type: as float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html: saturate(round_half_to_even(x / y_scale) + y_zero_point), the
division in the scale's type or in `precision`. To the low floats there is no rounding to integers: a saturating Cast.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import (
    LOW_FLOATS,
    RANGES,
    all_equal,
    quantised_type,
)
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity, granularity, spread
from trtsmith.converter.rewrite.rules.quantized.native_types import is_native, may_be_native
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated
from trtsmith.importers.dtypes import NUMBERS, dtype_name

_DIVIDES = ("float32", "float16", "bfloat16")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    target = quantised_type(node)
    grain = granularity(node)
    if isinstance(grain, Refusal):
        return None if may_be_native(node, target) else grain
    if is_native(node, target, grain) and node.dtype(0) in (*_DIVIDES, None):
        return None
    if target is None or target not in (*RANGES, *LOW_FLOATS):
        return Refusal(
            f"it quantises to {target or 'a type that is not known'}",
            "one of " + ", ".join((*RANGES, *sorted(LOW_FLOATS))),
            "run onnx.shape_inference on the model, or give the node a zero point of a known type",
        )
    numerics = ""
    if node.dtype(0) == "int32" and "float32" in (_precision(node), "float32"):
        numerics = "its int32 input is divided in float32, as onnxruntime does: exact up to 2^24"
    return Replacement(
        _arithmetic(node, grain, target).nodes(),
        f"quantised to {target} by arithmetic in float32",
        numerics=numerics,
    )


def _precision(node: NodeView) -> str:
    """The type of the division. Integers have none, so that float32 stands for them."""
    number = int(node.attributes.get("precision") or 0)
    dtype = dtype_name(number) if number else node.dtype(1)
    return dtype if dtype in _DIVIDES else "float32"


def _arithmetic(node: NodeView, grain: Granularity, target: str) -> Writer:
    w = Writer(node)
    precision = _precision(node)
    data = "x0" if node.dtype(0) == precision else w.cast("x0", precision)
    steps = w.do("Div", data, spread(w, grain, 1, precision))
    zero_point = ""
    if node.input(2) and target in (*RANGES, "float4_e2m1fn") and not all_equal(node.constant(2), 0):
        zero_point = spread(w, grain, 2)
    if target in RANGES:
        if precision != "float32":
            steps = w.cast(steps, "float32")  # a zero point of uint16 has no place in float16
        saturated(w, steps, zero_point, target, "y0")
        return w
    if zero_point:
        steps = w.do("Add", w.cast(steps, "float32"), zero_point)
    saturate = int(node.attributes.get("saturate", 1))
    w.do("Cast", steps, result="y0", saturate=saturate, to=NUMBERS[target])
    return w


_AWKWARD = np.array(
    [[0.25, -0.25, 0.75, -0.75, 1e9, -1e9], [np.inf, -np.inf, -0.0, 127.25, 63.75, 3.3]], np.float32
)

_EXAMPLES = (
    Example(
        "uint8 of zero point 0, which TensorRT would take for int8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}, uint8 zero = {0}> {
            q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "before Round, and before Clip with inputs",
        """<ir_version: 5, opset_import: ["" : 10]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}, uint8 middle = {117}> {
            q = QuantizeLinear (x, scale, middle)  y = DequantizeLinear (q, scale, middle)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "no zero point, which is one of uint8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float scale = {0.5}> {
            q = QuantizeLinear (x, scale)  y = DequantizeLinear (q, scale)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "an axis, odd zero points",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x) => (float[2, 6] y) <float[2] scale = {0.5, 0.25}, int8[2] zero = {3, -127}> {
            q = QuantizeLinear <axis = -2> (x, scale, zero)  y = DequantizeLinear <axis = 0> (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "blocks that do not divide the axis, 16 bits",
        """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 6] x) => (float[2, 6] y)
        <float[2, 2] scale = {0.5, 0.25, 1.5, 3.0}, uint16[2, 2] zero = {0, 65535, 32769, 7}> {
            q = QuantizeLinear <axis = 1, block_size = 4> (x, scale, zero)
            y = DequantizeLinear <axis = 1, block_size = 4> (q, scale, zero)
        }""",
        feeds={"x": _AWKWARD},
    ),
    Example(
        "a scale and a zero point of run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 6] x, float[6] scale, float zero) => (float[2, 6] y) {
            five = Constant <value = int64[1] {6}> ()
            point = Cast <to = 2> (zero)
            points = Expand (point, five)
            q = QuantizeLinear (x, scale, points)  y = DequantizeLinear (q, scale, points)
        }""",
        feeds={
            "x": _AWKWARD,
            "scale": np.linspace(0.1, 1, 6, dtype=np.float32),
            "zero": np.array(131, np.float32),
        },
        builds=False,
        why="the zero point is uint8 inside the graph: its type is for another rule",
    ),
    Example(
        "division in float16",
        """<ir_version: 10, opset_import: ["" : 23]>
        g (float16[2, 6] x, float16 scale) => (float16[2, 6] y) <uint8 zero = {100}> {
            q = QuantizeLinear (x, scale, zero)  y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={
            "x": np.linspace(-20, 30, 12, dtype=np.float16).reshape(2, 6),
            "scale": np.array(0.3, np.float16),
        },
        reference=True,
    ),
)

QUANTIZE_LINEAR = NodeRule(
    "quantize",
    "QuantizeLinear with types, zero points or blocks that TensorRT lacks becomes float32 arithmetic",
    ("QuantizeLinear", "com.microsoft::QuantizeLinear"),
    _rewrite,
    _EXAMPLES,
)

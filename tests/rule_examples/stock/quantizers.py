"""Models that the rule stock-quantizers takes; the oracle rounds with ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.rule_examples.example import Arrays, Example

_X = np.array([[0.01, -0.03, 0.07, 1.5], [9.0, -9.5, 0.0, 3.3]], np.float32)
_WEIGHT = np.random.default_rng(3).normal(size=(4, 2)).astype(np.float32)
_SCALES = np.array([[0.2, 0.3], [0.25, 0.15]], np.float32)


def _float8(inputs: Arrays) -> Arrays:
    steps = np.clip(inputs["x"] / np.float32(0.02), -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return {"y": steps.astype(np.float32) * np.float32(0.02)}


def _float16(inputs: Arrays) -> Arrays:
    return _float8({"x": inputs["x"].astype(np.float32)})


def _int4(inputs: Arrays) -> Arrays:
    scales = np.repeat(_SCALES, 2, axis=0)
    weight = np.clip(np.rint(_WEIGHT / scales), -8, 7) * scales
    return {"y": inputs["x"] @ weight}


def _floats(array: np.ndarray) -> str:
    return "{" + ", ".join(repr(float(value)) for value in array.ravel()) + "}"


_EXAMPLES = (
    Example(
        "float8 with a scale, as modelopt's exporter of PyTorch writes it",
        """<ir_version: 10, opset_import: ["" : 17, "trt" : 1]>
        g (float[2, 4] x) => (float[2, 4] y) <float scale = {0.02}> {
            q = trt.TRT_FP8QuantizeLinear (x, scale)  y = trt.TRT_FP8DequantizeLinear (q, scale)
        }""",
        feeds={"x": _X},
        expected=_float8,
        builds=False,
        why="TensorRT builds float8 from sm89 on, and without a GPU for sm86",
    ),
    Example(
        "float8 of float16 values with a scale in float32",
        """<ir_version: 10, opset_import: ["" : 21, "trt" : 1]>
        g (float16[2, 4] x) => (float[2, 4] y) <float scale = {0.02}> {
            q = trt.TRT_FP8QuantizeLinear (x, scale)  y = trt.TRT_FP8DequantizeLinear (q, scale)
        }""",
        feeds={"x": _X.astype(np.float16)},
        expected=_float16,
        builds=False,
        why="TensorRT builds float8 from sm89 on, and without a GPU for sm86",
    ),
    Example(
        "weights of int4 in blocks, as modelopt writes AWQ",
        f"""<ir_version: 10, opset_import: ["" : 21, "trt" : 1]>
        g (float[2, 4] x) => (float[2, 2] y)
        <float[4, 2] w = {_floats(_WEIGHT)}, float[2, 2] scale = {_floats(_SCALES)}> {{
            q = trt.TRT_INT4QuantizeLinear <axis = 0, block_size = 2> (w, scale)
            d = trt.TRT_INT4DequantizeLinear <axis = 0, block_size = 2> (q, scale)
            y = MatMul (x, d)
        }}""",
        feeds={"x": _X},
        expected=_int4,
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "stock-quantizers": _EXAMPLES,
}

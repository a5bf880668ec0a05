"""Models that the rule stock-instance-norm takes, with PyTorch's as the oracle."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch


def _normal(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    return by_torch("instance_norm", x, None, None, scale, bias, eps=epsilon)


_SCALES, _BIAS = np.array([1.5, -0.25, 2.0], np.float32), np.array([0.1, 0.2, -3.0], np.float32)


def _attributes(inputs: Arrays) -> Arrays:
    return {"y": _normal(inputs["x"], _SCALES, _BIAS, 0.01).astype(inputs["x"].dtype)}


def _leaky(inputs: Arrays) -> Arrays:
    unit = _normal(inputs["x"], _SCALES, _BIAS, 1e-5)
    return {"y": np.where(unit < 0, unit * 0.3, unit).astype(inputs["x"].dtype)}


def _operands(inputs: Arrays) -> Arrays:
    return {"y": _normal(inputs["x"], inputs["s"], inputs["b"], 1e-5).astype(inputs["x"].dtype)}


_TENSORS = "scales = float[3] {1.5, -0.25, 2.0}, bias = float[3] {0.1, 0.2, -3.0}"
_LISTS = "scales = [1.5, -0.25, 2.0], bias = [0.1, 0.2, -3.0]"
_X = np.random.default_rng(5).standard_normal((2, 3, 4, 5)).astype(np.float32)

_EXAMPLES = (
    Example(
        "attributes, an old opset",
        f"""<ir_version: 6, opset_import: ["" : 9, "TRT" : 1]>
        g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y) {{
            y = TRT.InstanceNormalization_TRT <epsilon = 0.01, {_TENSORS}, plugin_version = "1"> (x)
        }}""",
        rtol=1e-4,
        atol=1e-5,
        expected=_attributes,
    ),
    Example(
        "leaky, in no domain, of unknown sizes",
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3, H, W] x) => (float[N, 3, H, W] y) {{
            y = InstanceNormalization_TRT <epsilon = 0.00001, {_LISTS}, relu = [1], alpha = 0.3> (x)
        }}""",
        feeds={"x": _X},
        rtol=1e-4,
        atol=1e-5,
        expected=_leaky,
    ),
    Example(
        "volumes in float16",
        f"""<ir_version: 8, opset_import: ["" : 13, "trt.plugins" : 1]>
        g (float16[2, 3, 2, 3, 5] x) => (float16[2, 3, 2, 3, 5] y) {{
            y = trt.plugins.InstanceNormalization_TRT <epsilon = 0.01, {_TENSORS}, relu = 0, alpha = 0.5> (x)
        }}""",
        rtol=2e-3,
        atol=2e-3,
        expected=_attributes,
    ),
    Example(
        "mmdeploy's, three dimensions, mixed types",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float16[2, 3, 7] x) => (float16[2, 3, 7] y)
        <float[3] s = {1.5, -0.25, 2.0}, float[3] b = {0.1, 0.2, -3.0}> {
            y = mmdeploy.TRTInstanceNormalization (x, s, b)
        }""",
        rtol=2e-3,
        atol=2e-3,
        expected=lambda inputs: _operands({**inputs, "s": _SCALES, "b": _BIAS}),
    ),
    Example(
        "mmcv's, with computed scales",
        """<ir_version: 8, opset_import: ["" : 20, "mmcv" : 1]>
        g (float[2, 3, 1, 4] x, float[3] s, float[3] b) => (float[2, 3, 1, 4] y) {
            y = mmcv.MMCVInstanceNormalization <epsilon = 0.00001> (x, s, b)
        }""",
        rtol=1e-4,
        atol=1e-5,
        expected=_operands,
    ),
)

EXAMPLES = {"stock-instance-norm": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-instance-norm": (
        f"""<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 4, 5] x) => (float[2, 4, 5] y) {{ y = TRT.InstanceNormalization_TRT <epsilon = 0.1, {_LISTS}> (x) }}""",
        f"""<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 3, 5] x) => (float[2, 3, 5] y) {{ y = TRT.InstanceNormalization_TRT <{_LISTS}> (x) }}""",
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float[2, 3, 5] x, float[3] s) => (float[2, 3, 5] y) {
            y = mmdeploy.TRTInstanceNormalization <momentum = 0.5> (x, s, s)
        }""",
    ),
}

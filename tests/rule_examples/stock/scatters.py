"""Models that the rules stock-scatter-nd and stock-scatter-elements take, with numpy's own scatters as the oracle."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Arrays, Example

_PLACES = np.array([[2, 0], [0, 3]], np.int32)
_ROWS = np.array([[1, 0, 1], [2, 1, -1]], np.int64)


def _scattered(inputs: Arrays) -> Arrays:
    result = inputs["x"].copy()
    result[tuple(inputs["i"].T)] = inputs["u"]
    return {"y": result}


def _largest(inputs: Arrays) -> Arrays:
    result = inputs["x"].copy()
    np.maximum.at(result, (inputs["i"], np.arange(result.shape[1])), inputs["u"])
    return {"y": result}


def _sums(inputs: Arrays) -> Arrays:
    result = inputs["x"].astype(np.float64)
    np.add.at(result, (np.arange(len(result))[:, None], inputs["i"]), inputs["u"])
    return {"y": result.astype(inputs["x"].dtype)}


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "stock-scatter-nd": (
        Example(
            "mmdeploy's, indices in int32, unknown sizes",
            """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
            g (float[N, 4, 2] x, int32[K, 2] i, float[K, 2] u) => (float[N, 4, 2] y) {
                y = mmdeploy.ScatterND (x, i, u)
            }""",
            feeds={
                "x": np.arange(24, dtype=np.float32).reshape(3, 4, 2),
                "i": _PLACES,
                "u": np.array([[-1, -2], [-3, -4]], np.float32),
            },
            expected=_scattered,
        ),
        Example(
            "TensorRT's, an opset without ScatterND, integers",
            """<ir_version: 6, opset_import: ["" : 10, "TRT" : 1]>
            g (int32[3, 4, 2] x, int64[2, 2] i, int32[2, 2] u) => (int32[3, 4, 2] y) {
                y = TRT.ScatterND <plugin_version = "1"> (x, i, u)
            }""",
            feeds={"i": _PLACES.astype(np.int64)},
            expected=_scattered,
        ),
    ),
    "stock-scatter-elements": (
        Example(
            "the largest, rows",
            """<ir_version: 8, opset_import: ["" : 13, "trt.plugins" : 1]>
            g (float[3, 3] x, int64[2, 3] i, float[2, 3] u) => (float[3, 3] y) {
                y = trt.plugins.ScatterElements <reduction = "max"> (x, i, u)
            }""",
            feeds={"i": _ROWS},
            expected=_largest,
        ),
        Example(
            "sums, columns, indices in int32",
            """<ir_version: 8, opset_import: ["" : 18, "TRT" : 1]>
            g (float[2, 4] x, int32[2, 3] i, float[2, 3] u) => (float[2, 4] y) {
                y = TRT.ScatterElements <axis = 1, reduction = "add"> (x, i, u)
            }""",
            feeds={"i": np.array([[1, 1, 3], [0, 2, 0]], np.int32)},
            expected=_sums,
        ),
    ),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-scatter-elements": (
        """<ir_version: 8, opset_import: ["" : 18, "TRT" : 1]>
        g (float[2, 4] x, int64[2, 3] i, float[2, 3] u) => (float[2, 4] y) {
            y = TRT.ScatterElements <axis = 1, reduction = "mean"> (x, i, u)
        }""",
        """<ir_version: 8, opset_import: ["" : 18, "TRT" : 1]>
        g (float[2, 4] x, int64[2, 3] i, float[2, 3] u) => (float[2, 4] y) { y = TRT.ScatterElements (x, i, u) }""",
    ),
    "stock-scatter-nd": (
        """<ir_version: 8, opset_import: ["" : 18, "mmdeploy" : 1]>
        g (float[2, 4] x, int64[3, 1] i, float[3, 4] u) => (float[2, 4] y) {
            y = mmdeploy.ScatterND <reduction = "add"> (x, i, u)
        }""",
    ),
}

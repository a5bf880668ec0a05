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


def _products(inputs: Arrays) -> Arrays:
    """Row by row; segments without any are one."""
    x = inputs["x"].astype(np.float64)
    result = np.ones((5, *x.shape[1:]))
    for place in np.ndindex(*x.shape):
        segment = inputs["i"][place] if inputs["i"].ndim > 1 else inputs["i"][place[0]]
        result[(segment, *place[1:])] *= x[place]
    return {"y": result.astype(inputs["x"].dtype)}


def _multiplied(name: str, kind: str, index: str, array: np.ndarray) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 18, "torch_scatter" : 1]>
        g ({kind}[6, 3] x, int64{index} i) => ({kind}[5, 3] y) {{
            y = torch_scatter.scatter_mul <dim = 0, dim_size = 5> (x, i)
        }}""",
        feeds={"x": (np.arange(18).reshape(6, 3) / 8 - 1).astype(dtype), "i": array},
        rtol=2e-3 if kind == "float16" else 1e-5,
        expected=_products,
    )


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
    "stock-scatter-products": (
        _multiplied("rows", "float", "[6]", np.array([0, 3, 3, 0, 3, 4])),
        _multiplied("rows in float16, all to one", "float16", "[6]", np.full(6, 2)),
        _multiplied("an index for each element", "float", "[6, 3]", np.arange(18).reshape(6, 3) % 5),
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
    "stock-scatter-products": (
        """<ir_version: 8, opset_import: ["" : 18, "torch_scatter" : 1]>
        g (float[6, 3] x, int64[6] i) => (float[S, 3] y) { y = torch_scatter.scatter_mul <dim = 0> (x, i) }""",
        """<ir_version: 8, opset_import: ["" : 18, "torch_scatter" : 1]>
        g (float[6, 3] x, int64[3] i) => (float[6, 4] y) {
            y = torch_scatter.scatter_mul <dim = 1, dim_size = 4> (x, i)
        }""",
    ),
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

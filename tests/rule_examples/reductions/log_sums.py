"""Models that the rule log-sums takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(
    name: str, shape: str, body: str, result: str, opset: int = 18, dtype: str = "float", spread: float = 300
) -> Example:
    sizes = [int(size) for size in shape.split(",")]
    x = np.random.default_rng(7).uniform(-spread, spread, sizes)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({dtype}[{shape}] x) => ({dtype}[{result}] y)
        {"<int64[2] axes = {-1, 0}>" if "axes)" in body else ""} {{ {body} }}""",
        feeds={"x": x.astype(np.float32 if dtype == "float" else np.float16)},
        rtol=1e-5 if dtype == "float" else 2e-3,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "log-sums": (
        _example("log-softmax", "4, 60", "y = LogSoftmax (x)", "4, 60"),
        _example("log-softmax, another axis", "4, 9, 5", "y = LogSoftmax <axis = 1> (x)", "4, 9, 5"),
        _example("log-softmax, opset 11", "4, 9, 5", "y = LogSoftmax <axis = 1> (x)", "4, 9, 5", opset=11),
        _example("log-softmax, float16", "4, 60", "y = LogSoftmax (x)", "4, 60", dtype="float16", spread=20),
        _example("log of a sum", "4, 9, 5", "y = ReduceLogSumExp <keepdims = 0> (x, axes)", "9"),
        _example("log of a sum, opset 13", "4, 9", "y = ReduceLogSumExp <axes = [1]> (x)", "4, 1", opset=13),
        _example(
            "log of a sum, float16", "4, 9", "y = ReduceLogSumExp (x)", "1, 1", dtype="float16", spread=40
        ),
        Example(
            "log of a sum, infinite",
            """<ir_version: 8, opset_import: ["" : 18]> g (float[3, 2] x) => (float[3] y) <int64[1] axis = {1}> {
                y = ReduceLogSumExp <keepdims = 0> (x, axis)
            }""",
            feeds={"x": np.array([[-np.inf, -np.inf], [1, np.inf], [-np.inf, 2]], np.float32)},
        ),
    ),
}

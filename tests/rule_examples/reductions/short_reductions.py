"""Models that the rule short-reductions takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, shape: str, body: str, result: str, sizes_given: str = "") -> Example:
    sizes = [int(size) for size in shape.split(",")]
    x = np.random.default_rng(7).uniform(-3, 3, sizes).astype(np.float32)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[{sizes_given or shape}] x) => (float[{result}] y)
        <int64[1] first = {{0}}, int64[1] second = {{1}}, int64[1] last = {{-1}}, float[6] scale = {{1, 2, 0.5, 1, 3, 1}}> {{
            {body}
        }}""",
        feeds={"x": x},
        rtol=1e-4,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "short-reductions": (
        _example(
            "softmax, sum",
            "2, 4, 6, 5",
            "a = Softmax <axis = -1> (x) y = ReduceSum (a, second)",
            "2, 1, 6, 5",
        ),
        _example(
            "unit vectors, maximum",
            "3, 40, 50",
            "n = ReduceL2 (x, first) a = Div (x, n) y = ReduceMax <keepdims = 0> (a, last)",
            "3, 40",
        ),
        _example(
            "unit vectors, written out",
            "8, 16, 3",
            """q = Mul (x, x) s = ReduceSum (q, last) n = Sqrt (s) a = Div (x, n)
            y = ReduceMean <keepdims = 0> (a, second)""",
            "8, 3",
        ),
        _example(
            "softmax, layer norm",
            "4, 6",
            "a = LogSoftmax <axis = 0> (x) y = LayerNormalization (a, scale)",
            "4, 6",
        ),
        _example(
            "softmax, softmax", "2, 8, 6", "a = Softmax <axis = 0> (x) y = Softmax <axis = -1> (a)", "2, 8, 6"
        ),
        _example(
            "softmax, pooling",
            "2, 4, 5, 6",
            "a = Softmax <axis = 1> (x) y = GlobalAveragePool (a)",
            "2, 4, 1, 1",
        ),
        _example(
            "sizes of run time",
            "4, 5, 6",
            "a = Softmax <axis = 1> (x) y = ReduceMax <keepdims = 0> (a, last)",
            "N, M",
            sizes_given="N, M, K",
        ),
        _example(
            "a batch of run time",
            "7, 5, 6",
            "a = Softmax <axis = 1> (x) y = ReduceMax <keepdims = 0> (a, last)",
            "N, 5",
            sizes_given="N, 5, 6",
        ),
    ),
}

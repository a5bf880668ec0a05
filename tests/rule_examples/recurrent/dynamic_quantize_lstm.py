"""Models that the rule dynamic-quantize-lstm takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(4)


def _listed(*shape: int) -> str:
    return ", ".join(str(value) for value in _RNG.integers(-100, 101, shape).reshape(-1))


_TWO = f"""<int8[2, 3, 16] w = {{{_listed(2, 3, 16)}}}, int8[2, 4, 16] r = {{{_listed(2, 4, 16)}}},
         float[2] sw = {{0.01, 0.005}}, int8[2] zw = {{3, -5}}, float[2] sr = {{0.004, 0.006}}, int8[2] zr = {{0, 9}}>"""
_ONE = f"""<int8[1, 3, 16] w = {{{_listed(1, 3, 16)}}}, int8[1, 4, 16] r = {{{_listed(1, 4, 16)}}},
         float[1] sw = {{0.01}}, int8[1] zw = {{3}}, float[1] sr = {{0.004}}, int8[1] zr = {{0}}>"""


def _model(ends: str, weights: str, body: str, opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {ends} {weights} {{ {body} }}"""


_EXAMPLES = (
    Example(
        "two directions",
        _model(
            "(float[5, 2, 3] x) => (float[5, 2, 2, 4] y, float[2, 2, 4] h)",
            _TWO,
            """y, h = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "bidirectional"> (
                x, w, r, , , , , , sw, zw, sr, zr)""",
        ),
    ),
    Example(
        "backwards, with all inputs, of sequences that end early",
        _model(
            "(float[S, B, 3] x, int32[B] l, float[1, B, 4] h0, float[1, B, 4] c0, float[1, 32] b, float[1, 12] p)"
            " => (float[S, 1, B, 4] y, float[1, B, 4] h, float[1, B, 4] c)",
            _ONE,
            """y, h, c = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "reverse", clip = 0.7> (
                x, w, r, b, l, h0, c0, p, sw, zw, sr, zr)""",
        ),
        feeds={
            "x": _RNG.normal(0, 3, (5, 4, 3)).astype(np.float32),
            "l": np.array([3, 0, 4, 1], np.int32),
            "h0": _RNG.normal(0, 1, (1, 4, 4)).astype(np.float32),
            "c0": _RNG.normal(0, 1, (1, 4, 4)).astype(np.float32),
        },
    ),
    Example(
        "the last state alone, of sequences that end early",
        _model(
            "(float[5, 2, 3] x, int32[2] l) => (float[1, 2, 4] h)",
            _ONE,
            """, h = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "forward"> (
                x, w, r, , l, , , , sw, zw, sr, zr)""",
            opset=11,
        ),
        feeds={"l": np.array([2, 5], np.int32)},
    ),
    Example(
        "one step, activations with factors, coupled gates",
        _model(
            "(float[1, 2, 3] x, float[2, 2, 4] h0) => (float[1, 2, 2, 4] y)",
            _TWO,
            """y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "bidirectional", input_forget = 1,
                activations = ["HardSigmoid", "ScaledTanh", "Affine", "Sigmoid", "Elu", "Softsign"],
                activation_alpha = [0.3, 1.2, 0.9, 0.5], activation_beta = [0.4, 0.8, 0.1]> (
                x, w, r, , , h0, , , sw, zw, sr, zr)""",
        ),
    ),
    Example(
        "uint8, a scale for each column",
        _model(
            "(float[3, 2, 2] x) => (float[3, 1, 2, 1] y)",
            """<uint8[1, 2, 4] w = {0, 255, 17, 130, 99, 1, 200, 128}, uint8[1, 1, 4] r = {250, 3, 90, 140},
                float[1, 4] sw = {0.01, 0.02, 0.005, 0.015}, uint8[1, 4] zw = {128, 128, 128, 128},
                float[1, 4] sr = {0.02, 0.01, 0.015, 0.01}, uint8[1, 4] zr = {127, 127, 127, 127}>""",
            """y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 1, direction = "forward"> (
                x, w, r, , , , , , sw, zw, sr, zr)""",
        ),
    ),
)


EXAMPLES = {"dynamic-quantize-lstm": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "dynamic-quantize-lstm": (
        _model(
            "(float[3, 2, 2] x, int8[1, 2, 4] w) => (float[3, 1, 2, 1] y)",
            """<int8[1, 1, 4] r = {25, 3, 90, 14}, float[1] s = {0.1}, int8[1] z = {0}>""",
            """y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 1, direction = "forward"> (
                x, w, r, , , , , , s, z, s, z)""",
        ),
        _model(
            "(float[3, 2, 2] x) => (float[3, 1, 2, 1] y)",
            """<int8[1, 2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, int8[1, 1, 4] r = {25, 3, 90, 14}, float[1] s = {0.1},
                int8[1] z = {0}>""",
            """y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 1, activations = ["Sigmoid", "Gelu", "Tanh"]> (
                x, w, r, , , , , , s, z, s, z)""",
        ),
    ),
}

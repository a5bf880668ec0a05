"""Models that the rule dft takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, opset: int, signature: str, body: str) -> Example:
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    # onnxruntime has no transform back to real values, and its own error is that of a float32 FFT.
    return Example(name, text, reference=True, rtol=1e-4, atol=1e-5)


_EXAMPLES = (
    _example(
        "complex, along the first axis, cut",
        20,
        "(float[7, 3, 2] x) => (float[5, 3, 2] y)",
        "n = Constant <value = int64 {5}> ()  a = Constant <value = int64 {-3}> ()  y = DFT (x, n, a)",
    ),
    _example(
        "real, one-sided, with zeros at the end",
        17,
        "(float[2, 6, 1] x) => (float[2, 5, 2] y)",
        "n = Constant <value = int64 {9}> ()  y = DFT <axis = 1, onesided = 1> (x, n)",
    ),
    _example("inverse", 20, "(float[2, 6, 2] x) => (float[2, 6, 2] y)", "y = DFT <inverse = 1> (x)"),
    _example(
        "back to real, odd",
        20,
        "(float[2, 4, 2] x) => (float[2, 7, 1] y)",
        "n = Constant <value = int64 {7}> ()  y = DFT <inverse = 1, onesided = 1> (x, n)",
    ),
    _example(
        "back to real, even",
        20,
        "(float[2, 5, 2] x) => (float[2, 8, 1] y)",
        "y = DFT <inverse = 1, onesided = 1> (x)",
    ),
)


EXAMPLES = {"dft": _EXAMPLES}

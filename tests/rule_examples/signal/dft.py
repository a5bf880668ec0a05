"""Models that the rule dft takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example


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

_POINTS = np.random.default_rng(5).standard_normal((2, 6001, 2)).astype(np.float32)


def _complex(array: np.ndarray) -> np.ndarray:
    return array[..., 0].astype(np.float64) + 1j * array[..., 1]


def _pairs(array: np.ndarray) -> np.ndarray:
    return np.stack([array.real, array.imag], -1).astype(np.float32)


def _long(
    name: str,
    count: int,
    points: int,
    parts: int,
    call: str,
    out: str,
    transform: Callable[[np.ndarray], np.ndarray],
) -> Example:
    """More points than a matrix is worth; numpy transforms them in float64."""

    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"]
        found = transform(_complex(x) if parts == 2 else x[..., 0].astype(np.float64))
        return {"y": _pairs(found) if np.iscomplexobj(found) else found[..., None].astype(np.float32)}

    return Example(
        name,
        f"""<ir_version: 9, opset_import: ["" : 20]> g (float[N, {points}, {parts}] x) => (float[N, {out}] y) {{
            n = Constant <value = int64 {{{count}}}> ()  a = Constant <value = int64 {{1}}> ()  y = DFT {call} (x, n, a)
        }}""",
        feeds={"x": _POINTS[:, :points, :parts]},
        rtol=1e-4,
        atol=2e-4,
        expected=expected,
    )


_LONG = (
    _long("a prime length", 5003, 5003, 2, "", "5003, 2", np.fft.fft),
    _long(
        "a prime length, real and one-sided, with zeros",
        5003,
        4999,
        1,
        "<onesided = 1>",
        "2502, 2",
        lambda x: np.fft.rfft(x, 5003),
    ),
    _long("a long inverse, cut", 6000, 6001, 2, "<inverse = 1>", "6000, 2", lambda x: np.fft.ifft(x, 6000)),
    _long(
        "a long way back to real, even",
        6000,
        3001,
        2,
        "<inverse = 1, onesided = 1>",
        "6000, 1",
        lambda x: np.fft.irfft(x, 6000),
    ),
    _long(
        "a long way back to real, odd, with zeros",
        5003,
        2000,
        2,
        "<inverse = 1, onesided = 1>",
        "5003, 1",
        lambda x: np.fft.irfft(x, 5003),
    ),
)

EXAMPLES = {"dft": (*_EXAMPLES, *_LONG)}

REFUSED: dict[str, tuple[str, ...]] = {
    "dft": (
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[1, 2000000, 1] x) => (float[1, 2000000, 2] y) { y = DFT (x) }""",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[1, 4999, 1] x) => (float[1, n, 2] y) <int64 length = {-5003}> { y = DFT (x, length) }""",
    )
}

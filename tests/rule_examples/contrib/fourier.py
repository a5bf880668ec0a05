"""Models that the rule contrib-fourier takes, of images and of long signals, with numpy's transforms as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(8)


def _pairs(array: np.ndarray) -> np.ndarray:
    return np.stack([array.real, array.imag], -1)


def _complex(array: np.ndarray) -> np.ndarray:
    return array[..., 0].astype(np.float64) + 1j * array[..., 1]


def _example(
    name: str,
    op: str,
    axes: int,
    shape: tuple[int, ...],
    out: str,
    transform: Callable[[np.ndarray], np.ndarray],
    kind: str = "float",
) -> Example:
    """shape: of the input, whose first size the model leaves open."""
    dtype = np.float16 if kind == "float16" else np.float32
    return Example(
        f"{name}, {kind}",
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g ({kind}[N, {", ".join(map(str, shape[1:]))}] x) => ({kind}[N, {out}] y) {{
            y = com.microsoft.{op} <signal_ndim = {axes}> (x)
        }}""",
        feeds={"x": _RNG.standard_normal(shape).astype(dtype)},
        rtol=2e-3 if kind == "float16" else 1e-4,
        atol=2e-2 if kind == "float16" else 2e-4,
        expected=lambda inputs: {"y": transform(inputs["x"]).astype(dtype)},
    )


_EXAMPLES = (
    _example("images", "Rfft", 2, (3, 5, 8), "5, 5, 2", lambda x: _pairs(np.fft.rfft2(x.astype(np.float64)))),
    _example(
        "images of an odd size",
        "Rfft",
        2,
        (2, 2, 4, 7),
        "2, 4, 4, 2",
        lambda x: _pairs(np.fft.rfft2(x.astype(np.float64))),
        "float16",
    ),
    _example(
        "images from their spectra", "Irfft", 2, (3, 5, 4, 2), "5, 6", lambda x: np.fft.irfft2(_complex(x))
    ),
    _example(
        "images from their spectra",
        "Irfft",
        2,
        (2, 4, 5, 2),
        "4, 8",
        lambda x: np.fft.irfft2(_complex(x)),
        "float16",
    ),
    _example(
        "a long signal", "Rfft", 1, (2, 5003), "2502, 2", lambda x: _pairs(np.fft.rfft(x.astype(np.float64)))
    ),
    _example(
        "a long signal from its spectrum",
        "Irfft",
        1,
        (2, 2502, 2),
        "5002",
        lambda x: np.fft.irfft(_complex(x)),
    ),
)

EXAMPLES = {"contrib-fourier": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "contrib-fourier": tuple(
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[{dims}] x) => (float[3, A, B, 2] y) {{ y = com.microsoft.Rfft <{attributes}> (x) }}"""
        for dims, attributes in (
            ("3, 8, 8", "signal_ndim = 3"),
            ("3, 8, 8", "signal_ndim = 2, normalized = 1"),
            ("3, H, 8", "signal_ndim = 2"),
            ("3, 8, 2000000", "signal_ndim = 1"),
        )
    ),
}

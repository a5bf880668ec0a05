"""Makes the matrices of discrete Fourier transforms, over values stored as (real, imaginary) pairs.

A transform of n points into k is one product of n * c numbers by an [n * c, k * d] matrix, c and d being 1 for real and
2 for complex values. Angles are reduced modulo the length as whole numbers, computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer


def forward(used: int, length: int, bins: int, parts: int) -> np.ndarray:
    """X[k] = sum over n < used of x[n] exp(-2 pi i k n / length), k < bins. float64[used * parts, bins * 2]."""
    cos, sin = _tables(np.arange(used)[:, None] * np.arange(bins)[None, :], length)
    rows = [np.stack([cos, -sin], -1), np.stack([sin, cos], -1)][:parts]
    return np.stack(rows, 1).reshape(used * parts, bins * 2)


def inverse(used: int, length: int, parts: int) -> np.ndarray:
    """x[n] = 1 / length * sum over k < used of X[k] exp(2 pi i k n / length). float64[used * parts, length * 2]."""
    cos, sin = _tables(np.arange(used)[:, None] * np.arange(length)[None, :], length)
    rows = [np.stack([cos, sin], -1), np.stack([-sin, cos], -1)][:parts]
    return np.stack(rows, 1).reshape(used * parts, length * 2) / length


def inverse_real(used: int, length: int, parts: int) -> np.ndarray:
    """The inverse for the first half of a spectrum whose other half is its conjugate: float64[used * parts, length].

    All bins but the first, and the one at half an even length, stand for two.
    """
    bins = np.arange(used)
    cos, sin = _tables(bins[:, None] * np.arange(length)[None, :], length)
    weight = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0)[:, None]
    rows = [weight * cos, -weight * sin][:parts]
    return np.stack(rows, 1).reshape(used * parts, length) / length


def _tables(products: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    turns = np.arange(length)
    angle = 2 * np.pi * turns / length
    cos, sin = np.cos(angle), np.sin(angle)
    sin[(2 * turns) % length == 0] = (
        0.0  # sin(pi) is 1e-16 in float64; the imaginary part there must not count
    )
    cos[(4 * turns) % length == 0] = np.round(cos[(4 * turns) % length == 0])
    sin[(4 * turns) % length == 0] = np.round(sin[(4 * turns) % length == 0])
    return cos[products % length], sin[products % length]


def computed(
    w: Writer, used: Value, length: Value, bins: Value, parts: int, *, back: bool, real_out: bool
) -> Value:
    """The same matrices as float32 in the graph, for sizes (int64[1]) of run time."""
    rows = w.Unsqueeze(w.arange(used), axes=[1])
    turns = w.Mod(w.Mul(rows, w.Unsqueeze(w.arange(bins), axes=[0])), length)
    angle = w.Mul(w.Div(w.Cast(turns, to="float32"), w.Cast(length, to="float32")), 2 * np.pi)
    cos, sin = w.Cos(angle), w.Sin(angle)
    minus = w.Neg(sin)
    if real_out:
        once = w.Or(w.Equal(rows, 0), w.Equal(w.Mul(rows, 2), length))
        weight = w.Where(once, 1.0, 2.0)
        # Their sines are zero but for rounding, and must not count.
        blocks = [w.Mul(cos, weight), w.Mul(minus, w.Where(once, 0.0, 2.0))][:parts]
        line = [w.Unsqueeze(block, axes=[1]) for block in blocks]
        matrix = w.Concat(*line, axis=1) if parts > 1 else line[0]  # [used, parts, bins]
        out = bins
    else:
        signed = [(cos, sin), (minus, cos)] if back else [(cos, minus), (sin, cos)]
        pairs = [
            w.Concat(w.Unsqueeze(a, axes=[1, 3]), w.Unsqueeze(b, axes=[1, 3]), axis=3)
            for a, b in signed[:parts]
        ]
        matrix = w.Concat(*pairs, axis=1) if parts > 1 else pairs[0]  # [used, parts, bins, 2]
        out = w.Mul(bins, [2])
    if back:
        matrix = w.Div(matrix, w.Cast(length, to="float32"))
    return w.Reshape(matrix, shape=[w.Mul(used, [parts]), out])

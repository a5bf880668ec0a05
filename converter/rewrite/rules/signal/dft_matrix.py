"""Makes the matrices of discrete Fourier transforms, over values stored as (real, imaginary) pairs.

A transform of n points into k is one product of n * c numbers by an [n * c, k * d] matrix, c and d being 1 for real and
2 for complex values. Angles are reduced modulo the length as whole numbers, computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.statement_writer import Writer


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


def computed(w: Writer, used: str, length: str, bins: str, parts: int, *, back: bool, real_out: bool) -> str:
    """The same matrices as float32 in the graph, for sizes (int64[1]) of run time."""
    rows = w.unsqueeze(w.arange(used), [1])
    columns = w.unsqueeze(w.arange(bins), [0])
    turns = w.do("Mod", w.do("Mul", rows, columns), length)
    part = w.do("Div", w.cast(turns, "float32"), w.cast(length, "float32"))
    angle = w.do("Mul", part, w.number(2 * np.pi, "float32"))
    cos, sin = w.do("Cos", angle), w.do("Sin", angle)
    minus = w.do("Neg", sin)
    if real_out:
        first = w.do("Equal", rows, w.number(0, "int64"))
        middle = w.do("Equal", w.do("Mul", rows, w.number(2, "int64")), length)
        once = w.do("Or", first, middle)
        weight = w.do("Where", once, w.number(1.0, "float32"), w.number(2.0, "float32"))
        # Their sines are zero but for rounding, and must not count.
        silent = w.do("Where", once, w.number(0.0, "float32"), w.number(2.0, "float32"))
        blocks = [w.do("Mul", cos, weight), w.do("Mul", minus, silent)][:parts]
        line = [w.unsqueeze(block, [1]) for block in blocks]
        matrix = w.concat(line, 1) if parts > 1 else line[0]  # [used, parts, bins]
        out = bins
    else:
        signed = [(cos, sin), (minus, cos)] if back else [(cos, minus), (sin, cos)]
        pairs = [w.concat([w.unsqueeze(a, [1, 3]), w.unsqueeze(b, [1, 3])], 3) for a, b in signed[:parts]]
        matrix = w.concat(pairs, 1) if parts > 1 else pairs[0]  # [used, parts, bins, 2]
        out = w.do("Mul", bins, w.ints(2))
    if back:
        matrix = w.do("Div", matrix, w.cast(length, "float32"))
    return w.reshape(matrix, [w.do("Mul", used, w.ints(parts)), out])

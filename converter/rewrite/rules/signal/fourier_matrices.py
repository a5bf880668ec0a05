"""Makes matrices of discrete Fourier transforms over values stored as (real, imaginary) pairs.

A transform of n points into k is one product of n * c numbers by an [n * c, k * d] matrix, c and d being 1 for real and
2 for complex values. Angles are reduced modulo the length as whole numbers, computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer

SPLIT = "split the transform, or compute it outside of the network"


PRODUCT = (
    "a Fourier transform is computed as a matrix product in float32: its rounding error grows with the length, and "
    "TensorRT may multiply in TF32"
)


def kind_of(dtype: str) -> str:
    """Returns the type in which data of this type is transformed: float64 or float32."""
    return "float64" if dtype == "float64" else "float32"


def forward(w: Writer, used: int, length: int, bins: int, parts: int, kind: str) -> np.ndarray:
    """Computes X[k] = sum over n < used of x[n] exp(-2 pi i k n / length), k < bins. [used * parts, bins * 2]."""
    cos, sin = _tables(length)
    return _matrix(w, used, bins, [[cos, -sin], [sin, cos]][:parts], kind)


def inverse(w: Writer, used: int, length: int, parts: int, kind: str, factor: float = 1.0) -> np.ndarray:
    """Computes x[n] = factor / length * sum over k < used of X[k] exp(2 pi i k n / length). [used * parts, length * 2]."""
    cos, sin = (table * (factor / length) for table in _tables(length))
    return _matrix(w, used, length, [[cos, sin], [-sin, cos]][:parts], kind)


def inverse_real(w: Writer, used: int, length: int, parts: int, kind: str) -> np.ndarray:
    """Returns the inverse of a half spectrum whose other half is its conjugate: [used * parts, length].

    All bins but the first, and the one at half an even length, stand for two.
    """
    bins = np.arange(used)
    cos, sin = (table / length for table in _tables(length))
    made = _matrix(w, used, length, [[cos], [-sin]][:parts], kind)
    made[np.repeat((bins != 0) & (2 * bins != length), parts)] *= 2
    return made


def _matrix(w: Writer, rows: int, columns: int, tables: list[list[np.ndarray]], kind: str) -> np.ndarray:
    """[rows * R, columns * C] from tables [R][C][length], each read at row * column modulo the length."""
    length, parts, values = len(tables[0][0]), len(tables), len(tables[0])
    size = np.dtype(kind).itemsize * rows * parts * columns * values
    w.expect(f"a transform of {length:,} points", nbytes=size, fix=SPLIT)
    made = np.empty((rows, parts, columns, values), kind)
    turns = np.arange(columns)
    for row in range(rows):  # one at a time: all their indices would take more memory than the matrix
        at = row * turns % length
        for part, value in np.ndindex(parts, values):
            made[row, part, :, value] = tables[part][value][at]
    return made.reshape(rows * parts, columns * values)


def _tables(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of all multiples of 2 pi / length; float64."""
    turns = np.arange(length)
    angle = 2 * np.pi * turns / length
    cos, sin = np.cos(angle), np.sin(angle)
    sin[(2 * turns) % length == 0] = (
        0.0  # sin(pi) is 1e-16 in float64; the imaginary part there must not count
    )
    cos[(4 * turns) % length == 0] = np.round(cos[(4 * turns) % length == 0])
    sin[(4 * turns) % length == 0] = np.round(sin[(4 * turns) % length == 0])
    return cos, sin


def computed(
    w: Writer, used: Value, length: Value, bins: Value, parts: int, *, back: bool, real_out: bool
) -> Value:
    """Computes the same matrices in the graph, as float32, for sizes (int64[1]) of run time."""
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

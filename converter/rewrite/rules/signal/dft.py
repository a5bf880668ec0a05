"""Rewrites DFT, for which TensorRT-RTX has no layer, as a product with a matrix of cosines and sines.

More points than a matrix is worth are n1 * n2 of them, in two products (Cooley and Tukey 1965); where no two such factors
are, the transform is a convolution with a chirp (Bluestein 1970), of a power of two of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.signal.fourier_matrices import (
    PRODUCT,
    SPLIT,
    computed,
    forward,
    inverse,
    inverse_real,
    kind_of,
)

_LARGEST = 4096
"""Points up to which the matrix is worth its memory: 4096 in and out, complex, are 256 MiB of float32. Of float64 it
is half as many."""


LONGEST = 1 << 20
"""Points up to which the tables of two products are: of the chirp's 2^21 they are 32 MiB and twice 64 MiB of float32."""


def _largest(kind: str) -> int:
    return _LARGEST // (2 if kind == "float64" else 1)


@node_rule("dft", "DFT")
def dft_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites DFT as a product with its matrix."""
    shape, dtype = node.known_shape(0), node.known_dtype(0)
    if shape[-1] not in (1, 2):
        return Refusal(
            f"the last size of {node.input(0)!r} is {shape[-1] or 'unknown'}",
            "a last size of 1 for real numbers, or 2 for complex ones",
            "correct or fix that size where the model is exported",
        )
    axis = unrefused(_axis(node, len(shape)))
    length = node.constant(1)
    if node.input(1) and length is None:
        return Refusal(
            f"dft_length ({node.input(1)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {quote(node.input(1))}=N",
        )
    given = None if length is None else int(length.reshape(-1)[0])
    back, half = bool(node.attributes.get("inverse")), bool(node.attributes.get("onesided"))
    points = shape[axis]
    size = given or points or 0
    if given is None and points is not None and back and half:
        size = 2 * (points - 1)
    if size < 0:
        return Refusal(f"a transform of {size} points", "a dft_length above zero", "correct dft_length")
    most = _LARGEST if points is None else LONGEST
    if size > most:
        return Refusal(
            f"a transform of {size} points",
            f"at most {most}: trtsmith computes it as a product with {'a matrix' if points is None else 'two matrices'}",
            SPLIT,
        )
    w = Writer(node)
    result = transform(w, w.x[0], shape, axis, size if points is not None else given, back, half, dtype)
    factors = points is not None and size > _largest(kind_of(dtype))
    what = "DFT as products of its factors' transforms" if factors else "DFT as a product with its matrix"
    return Replacement(w.finish(result), what, numerics=PRODUCT)


def transform(
    w: Writer,
    data: Value,
    shape: Sequence[int | None],
    axis: int,
    size: int | None,
    back: bool,
    half: bool,
    dtype: str,
) -> Value:
    """Returns the transform of real or complex data of this shape along an axis, in its type, as defined by ONNX's DFT.

    size: of the transform; None for that of the data, which is known at run time alone.
    """
    rank, points = len(shape), shape[axis]
    data = w.Cast(data, to="float32") if dtype in ("float16", "bfloat16") else data
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    data = w.Transpose(data, perm=order) if axis != rank - 2 else data
    parts, kind = (1 if shape[-1] == 1 else 2), kind_of(dtype)
    if points is not None and size is not None and size > _largest(kind):
        result = _long(w, data, rank, points, size, parts, back, half, kind)
    else:
        if points is None or size is None:
            data, matrix = _dynamic(w, data, rank, size, parts, back, half)
        else:
            data, array = _static(w, data, rank, points, size, parts, back, half, kind)
            matrix = w.constant(array)
        product = w.MatMul(w.Reshape(data, [*[0] * (rank - 2), -1]), matrix)
        result = w.Reshape(product, [*[0] * (rank - 2), -1, 1 if back and half else 2])
    restored = [order.index(i) for i in range(rank)]
    result = w.Transpose(result, perm=restored) if restored != sorted(restored) else result
    return w.Cast(result, to=dtype) if dtype in ("float16", "bfloat16") else result


def _long(
    w: Writer, data: Value, rank: int, points: int, size: int, parts: int, back: bool, half: bool, kind: str
) -> Value:
    """A transform too long for one matrix: all points as complex numbers, then the part that is asked for."""
    bins = size // 2 + 1
    used = min(points, bins if back and half else size)
    rows = w.slice(data, [0], [used], [rank - 2]) if used < points else data
    rows = w.pad(rows, [*[0] * rank, *[0] * (rank - 2), (bins if back and half else size) - used, 2 - parts])
    if back and half:  # the other half is the conjugate of this one; what is its own conjugate is real
        place = np.arange(size)
        mirror = np.where(place < bins, 1.0, -1.0) * ((place > 0) & (2 * place != size))
        rows = w.Gather(rows, np.minimum(place, size - place), axis=rank - 2)
        rows = w.Mul(rows, np.stack([np.ones(size), mirror], -1).astype(kind))
    flat, sign = w.Reshape(rows, shape=[-1, size, 2]), 1 if back else -1
    first = next(n for n in range(isqrt(size), 0, -1) if size % n == 0)
    if size // first <= _largest(kind):
        found = _two_products(w, flat, first, size // first, sign, kind)
    else:
        found = _chirp(w, flat, size, sign, kind)
    found = w.Mul(found, np.array(1 / size, kind)) if back else found
    if half:
        found = w.slice(found, [0], [1], [2]) if back else w.slice(found, [0], [bins], [1])
    outer = [w.size(data, axis) for axis in range(rank - 2)]
    return w.Reshape(found, [*outer, bins if half and not back else size, 1 if half and back else 2])


def _two_products(w: Writer, data: Value, first: int, second: int, sign: int, kind: str) -> Value:
    """Cooley-Tukey step on data [R, first * second, 2]: transforms each second point, applies twiddle factors, and
    transforms the rest.
    """
    turns = np.exp(sign * 2j * np.pi * np.outer(np.arange(second), np.arange(first)) / (first * second))
    rows = w.Transpose(w.Reshape(data, shape=[-1, first, second, 2]), perm=[0, 2, 1, 3])
    rows = _turned(w, _full(w, rows, second, first, sign, kind), turns, kind)
    rows = _full(w, w.Transpose(rows, perm=[0, 2, 1, 3]), first, second, sign, kind)
    return w.Reshape(w.Transpose(rows, perm=[0, 2, 1, 3]), shape=[-1, first * second, 2])


def _full(w: Writer, data: Value, rows: int, points: int, sign: int, kind: str) -> Value:
    """Transforms each row of data [R, rows, points, 2]."""
    whole = w, points, points
    matrix = forward(*whole, points, 2, kind) if sign < 0 else inverse(*whole, 2, kind, factor=points)
    product = w.MatMul(w.Reshape(data, shape=[-1, rows, 2 * points]), matrix)
    return w.Reshape(product, shape=[-1, rows, points, 2])


def _turned(w: Writer, data: Value, factors: np.ndarray, kind: str) -> Value:
    """Multiplies (real, imaginary) pairs by complex factors."""
    crossed = np.stack([-factors.imag, factors.imag], -1).astype(kind)
    straight = w.Mul(data, factors.real[..., None].astype(kind))
    return w.Add(straight, w.Mul(w.Gather(data, [1, 0], axis=-1), crossed))


def _chirp(w: Writer, data: Value, size: int, sign: int, kind: str) -> Value:
    """Bluestein's transform of data [R, size, 2]: 2 j k = j^2 + k^2 - (k - j)^2 turns it into a convolution with a chirp."""
    longer = 1 << (2 * size - 2).bit_length()
    half = 1 << (longer.bit_length() // 2)
    places = np.arange(size)
    chirp = np.exp(sign * 1j * np.pi * (places * places % (2 * size)) / size)
    ring = np.zeros(longer, np.complex128)
    ring[:size] = chirp.conj()
    ring[longer - size + 1 :] = chirp.conj()[:0:-1]
    rows = w.pad(_turned(w, data, chirp, kind), [0, 0, 0, 0, longer - size, 0])
    spectrum = _two_products(w, rows, half, longer // half, -1, kind)
    spectrum = _turned(w, spectrum, np.fft.fft(ring) / longer, kind)
    convolved = _two_products(w, spectrum, half, longer // half, 1, kind)
    return _turned(w, w.slice(convolved, [0], [size], [1]), chirp, kind)


def _axis(node: NodeView, rank: int) -> int | Refusal:
    if node.version < 20:
        return int(node.attributes.get("axis", 1)) % rank
    if not node.input(2):
        return rank - 2
    value = node.constant(2)
    if value is None:
        return Refusal(
            f"the axis ({node.input(2)!r}) is computed at run time",
            "a constant",
            f"freeze it: --freeze {quote(node.input(2))}=AXIS",
        )
    return int(value.reshape(-1)[0]) % rank


def _static(
    w: Writer, data: Value, rank: int, points: int, size: int, parts: int, back: bool, half: bool, kind: str
) -> tuple[Value, np.ndarray]:
    """The input points in use, and the matrix. Longer signals are cut, shorter ones count as if padded with zeros."""
    wanted = size // 2 + 1 if back and half else size
    used = min(points, wanted)
    if used < points:
        data = w.slice(data, [0], [used], [rank - 2])
    if back:
        return data, (inverse_real if half else inverse)(w, used, size, parts, kind)
    return data, forward(w, used, size, size // 2 + 1 if half else size, parts, kind)


def _dynamic(
    w: Writer, data: Value, rank: int, given: int | None, parts: int, back: bool, half: bool
) -> tuple[Value, Value]:
    """The same for signals whose length is known only at run time."""
    if given is not None:
        limit = given // 2 + 1 if back and half else given
        data = w.slice(data, [0], [limit], [rank - 2])
    points = w.size(data, rank - 2)
    length = points if given is None else w.constant([given])
    if given is None and back and half:
        length = w.Mul(w.Sub(points, [1]), [2])
    bins = w.Add(w.Div(length, [2]), [1]) if half and not back else length
    return data, computed(w, points, length, bins, parts, back=back, real_out=back and half)

"""Writes rotary embeddings: pairs of channels turned by an angle that depends on the position.

Su et al., arXiv 2104.09864. Values have shape (batch, heads, length, head size).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.builder import TO_END


def rotate(
    w: Writer,
    data: Value,
    places: Value,
    tables: tuple[Value, Value],
    wide: int,
    *,
    interleaved: bool,
    partial: bool,
) -> Value:
    """The first `wide` channels turned; `partial`: the others are passed on.

    places: the positions, of shape (batch or 1, length). tables: the cosines and sines, a row for each
    position. interleaved: pairs are neighbours, else a channel of the first half with one of the second.
    """
    cos, sin = (w.Unsqueeze(w.Gather(table, places), axes=[1]) for table in tables)
    part = w.slice(data, [0], [wide], [3]) if partial else data
    half = wide // 2
    cuts = [(0, TO_END, 2), (1, TO_END, 2)] if interleaved else [(0, half, 1), (half, wide, 1)]
    a, b = (w.slice(part, [start], [end], [3], [step]) for start, end, step in cuts)
    left = w.Sub(w.Mul(a, cos), w.Mul(b, sin))
    right = w.Add(w.Mul(a, sin), w.Mul(b, cos))
    if interleaved:
        columns = w.Concat(w.Unsqueeze(left, axes=[4]), w.Unsqueeze(right, axes=[4]), axis=4)
        mixed = w.Reshape(columns, w.Shape(part))
    else:
        mixed = w.Concat(left, right, axis=3)
    return w.Concat(mixed, w.slice(data, [wide], [TO_END], [3]), axis=3) if partial else mixed

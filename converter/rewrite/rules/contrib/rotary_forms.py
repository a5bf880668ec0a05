"""Writes rotary embeddings: pairs of channels turned by an angle that depends on the position.

Su et al., arXiv 2104.09864. Values have shape (batch, heads, length, head size).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.builder import TO_END


def rotate(
    w: Writer, data: str, places: str, tables: tuple[str, str], wide: int, *, interleaved: bool, partial: bool
) -> str:
    """The first `wide` channels turned; `partial`: the others are passed on.

    places: name of the positions, of shape (batch or 1, length). tables: names of the cosines and sines, a row for each
    position. interleaved: pairs are neighbours, else a channel of the first half with one of the second.
    """
    cos, sin = (w.unsqueeze(w.do("Gather", table, places), [1]) for table in tables)
    part = w.slice_(data, [0], [wide], [3]) if partial else data
    half = wide // 2
    cuts = [(0, TO_END, 2), (1, TO_END, 2)] if interleaved else [(0, half, 1), (half, wide, 1)]
    a, b = (w.slice_(part, [start], [end], [3], [step]) for start, end, step in cuts)
    left = w.do("Sub", w.do("Mul", a, cos), w.do("Mul", b, sin))
    right = w.do("Add", w.do("Mul", a, sin), w.do("Mul", b, cos))
    if interleaved:
        columns = w.concat([w.unsqueeze(left, [4]), w.unsqueeze(right, [4])], 4)
        mixed = w.do("Reshape", columns, w.do("Shape", part))
    else:
        mixed = w.concat([left, right], 3)
    return w.concat([mixed, w.slice_(data, [wide], [TO_END], [3])], 3) if partial else mixed

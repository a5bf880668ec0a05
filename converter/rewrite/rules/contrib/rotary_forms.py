"""Rotary embeddings as ONNX statements: pairs of channels turned by an angle that depends on the position.

Su et al., arXiv 2104.09864. Values have shape (batch, heads, length, head size).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.opset_forms import slice_, unsqueeze

_END = int(np.iinfo(np.int64).max)


def rotate(
    result: str,
    data: str,
    places: str,
    tables: tuple[str, str],
    wide: int,
    opset: int,
    *,
    interleaved: bool,
    partial: bool,
) -> str:
    """The first `wide` channels turned; `partial`: the others are passed on.

    places: name of the positions, of shape (batch or 1, length). tables: names of the cosines and sines, a row for each
    position. interleaved: pairs are neighbours, else a channel of the first half with one of the second.
    """
    part = f"{result}_part" if partial else data
    mixed = f"{result}_mixed" if partial else result
    lines = [
        f"{result}_cos_rows = Gather ({tables[0]}, {places})",
        f"{result}_sin_rows = Gather ({tables[1]}, {places})",
        unsqueeze(f"{result}_cos", f"{result}_cos_rows", [1], opset),
        unsqueeze(f"{result}_sin", f"{result}_sin_rows", [1], opset),
    ]
    if partial:
        lines += [
            slice_(part, data, [0], [wide], [3], opset),
            slice_(f"{result}_rest", data, [wide], [_END], [3], opset),
        ]
    lines += [*_pairs(result, part, wide, opset, interleaved), *_turned(result)]
    if interleaved:
        lines += [
            unsqueeze(f"{result}_left_column", f"{result}_left", [4], opset),
            unsqueeze(f"{result}_right_column", f"{result}_right", [4], opset),
            f"{result}_columns = Concat <axis = 4> ({result}_left_column, {result}_right_column)",
            f"{result}_shape = Shape ({part})",
            f"{mixed} = Reshape ({result}_columns, {result}_shape)",
        ]
    else:
        lines.append(f"{mixed} = Concat <axis = 3> ({result}_left, {result}_right)")
    if partial:
        lines.append(f"{result} = Concat <axis = 3> ({mixed}, {result}_rest)")
    return "\n".join(lines)


def _pairs(result: str, part: str, wide: int, opset: int, interleaved: bool) -> list[str]:
    half = wide // 2
    cuts = [(0, _END, [2]), (1, _END, [2])] if interleaved else [(0, half, [1]), (half, wide, [1])]
    return [
        slice_(f"{result}_{name}", part, [start], [end], [3], opset, steps)
        for name, (start, end, steps) in zip("ab", cuts, strict=True)
    ]


def _turned(result: str) -> list[str]:
    """a cos - b sin and a sin + b cos."""
    products = [f"{result}_{x}_{f} = Mul ({result}_{x}, {result}_{f})" for x in "ab" for f in ("cos", "sin")]
    return [
        *products,
        f"{result}_left = Sub ({result}_a_cos, {result}_b_sin)",
        f"{result}_right = Add ({result}_a_sin, {result}_b_cos)",
    ]

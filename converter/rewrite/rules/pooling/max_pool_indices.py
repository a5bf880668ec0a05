"""Computes the second output of MaxPool, the place of each maximum; TensorRT gives the maxima only.

The maximum and its index go together through the taps of one axis after the other, last axis first. A later
tap wins only if it is greater, so that of equal values the first one in row-major order stays, as ONNX runtimes have it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.pooling.pool_windows import Window, clipped, padded, taps, windows


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if not node.output(1):
        return None
    if not node.used(1):  # named, and nobody reads it: TensorRT refuses the name
        w = Writer(node)
        given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
        w.do("MaxPool", "x0", result="y0", **given)
        return Replacement(w.nodes(), "MaxPool without the indices that nobody reads")
    dtype, rank = node.dtype(0), node.rank(0)
    if dtype is None or rank is None:
        return Refusal(
            f"the type or rank of {node.input(0)!r} is unknown",
            "an input whose type and rank shape inference finds",
            "run onnx.shape_inference on the model, or give the input's shape",
        )
    known = None not in (node.shape(0) or ())
    if node.opset < (9 if known else 11):
        return Refusal(
            f"the indices of MaxPool in opset {node.opset}"
            + ("" if known else " for an input of unknown size"),
            "opset 9 for fixed sizes, 11 for others",
            "convert the model to a newer opset (onnx.version_converter)",
        )
    wins = windows(node)
    if isinstance(wins, Refusal):
        return wins
    w = Writer(node)
    whole = dtype in ("uint8", "int8", "int32")  # exact in float32
    data = w.cast("x0", "float32") if whole else "x0"
    places = _places(w, wins, column_major=bool(node.attributes.get("storage_order")))
    data = padded(w, data, wins, rank, float("-inf"), "float32" if whole else dtype)
    for win in reversed(wins):
        data, places = _largest(w, data, places, win)
    data, places = clipped(w, data, "x0", wins), clipped(w, places, "x0", wins)
    if node.used(0) and whole:
        w.cast(data, dtype, result="y0")
    elif node.used(0):
        w.do("Identity", data, result="y0")
    w.do("Add", places, _first_of_channels(w, rank), result="y1")
    return Replacement(w.nodes(), "MaxPool that takes the index of each maximum through strided slices")


def _places(w: Writer, wins: Sequence[Window], column_major: bool) -> str:
    """Number of each element within its channel, int64[1, 1, spatial...], padded as the input is."""
    rank = len(wins) + 2
    shape = w.node.shape(0) or ()
    if None not in shape:
        spatial = [int(size or 0) for size in shape[2:]]
        layout: Literal["F", "C"] = "F" if column_major else "C"
        numbered = np.arange(math.prod(spatial)).reshape(spatial, order=layout)
        pads = [(win.begin or 0, (win.end or 0) + win.extra) for win in wins]
        return w.const(np.pad(numbered, pads)[None, None])
    axes: Sequence[int] = range(2, rank)
    order = list(reversed(axes)) if column_major else list(axes)
    sizes = [w.size("x0", axis) for axis in order]
    count = sizes[0]
    for size in sizes[1:]:
        count = w.do("Mul", count, size)
    numbers = w.reshape(w.arange(count), [1, 1, *sizes])
    if column_major:
        numbers = w.transpose(numbers, [0, 1, *(rank - 1 - i for i in range(rank - 2))])
    return padded(w, numbers, wins, rank)


def _first_of_channels(w: Writer, rank: int) -> str:
    """Index of the first element of each channel, int64[N, C, 1...]."""
    shape = w.node.shape(0) or ()
    if None not in shape:
        sizes = [int(size or 0) for size in shape]
        firsts = np.arange(sizes[0] * sizes[1]) * math.prod(sizes[2:])
        return w.const(firsts.reshape(*sizes[:2], *([1] * (rank - 2))))
    batch, channels = w.size("x0", 0), w.size("x0", 1)
    volume = w.size("x0", 2)
    for axis in range(3, rank):
        volume = w.do("Mul", volume, w.size("x0", axis))
    numbers = w.do("Mul", w.arange(w.do("Mul", batch, channels)), volume)
    return w.reshape(numbers, [batch, channels, *([1] * (rank - 2))])


def _largest(w: Writer, data: str, places: str, win: Window) -> tuple[str, str]:
    values, positions = taps(w, data, win), taps(w, places, win)
    best, where = values[0], positions[0]
    for value, position in zip(values[1:], positions[1:], strict=True):
        greater = w.do("Greater", value, best)
        best, where = w.do("Where", greater, value, best), w.do("Where", greater, position, where)
    return best, where


MAX_POOL_INDICES = NodeRule(
    "max-pool-indices",
    "MaxPool's indices are taken through slices along with the maxima",
    ("MaxPool",),
    _rewrite,
)

"""Computes the second output of MaxPool, the index of each maximum, which TensorRT does not give.

The maximum and its index go together through the taps of one axis after the other, last axis first. A later
tap wins only if it is greater, so that of equal values the first one in row-major order stays, as ONNX runtimes have it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.pooling.pool_windows import Window, clipped, padded, taps, windows


@node_rule("max-pool-indices", "MaxPool")
def max_pool_indices_rule(node: NodeView) -> Replacement | Refusal | None:
    """Computes MaxPool's indices from slices, along with the maxima."""
    if not node.output(1):
        return None
    if not node.used(1):  # named, and nobody reads it: TensorRT refuses the name
        w = Writer(node)
        given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
        return Replacement(
            w.finish(w.MaxPool(w.x[0], **given)), "MaxPool without the indices that nobody reads"
        )
    dtype, rank = node.known_dtype(0), node.known_rank(0)
    known = None not in (node.shape(0) or ())
    if node.opset < (9 if known else 11):
        return Refusal(
            f"the indices of MaxPool in opset {node.opset}"
            + ("" if known else " for an input of unknown size"),
            "opset 9 for fixed sizes, 11 for others",
            "convert the model to a newer opset (onnx.version_converter)",
        )
    wins = unrefused(windows(node))
    w = Writer(node)
    whole = dtype in ("uint8", "int8", "int32")  # exact in float32
    data = w.Cast(w.x[0], to="float32") if whole else w.x[0]
    places = _places(w, wins, column_major=bool(node.attributes.get("storage_order")))
    data = padded(w, data, wins, rank, float("-inf"), "float32" if whole else dtype)
    for win in reversed(wins):
        data, places = _largest(w, data, places, win)
    data, places = clipped(w, data, w.x[0], wins), clipped(w, places, w.x[0], wins)
    largest = w.Cast(data, to=dtype) if whole else data
    indices = w.Add(places, _first_of_channels(w, rank))
    nodes = w.finish(largest, indices)
    return Replacement(nodes, "MaxPool that takes the index of each maximum through strided slices")


def _places(w: Writer, wins: Sequence[Window], column_major: bool) -> Value:
    """The index of each element within its channel, int64[1, 1, spatial...], padded like the input."""
    rank = len(wins) + 2
    shape = w.node.shape(0) or ()
    if None not in shape:
        spatial = [int(size or 0) for size in shape[2:]]
        pads = [(win.begin or 0, (win.end or 0) + win.extra) for win in wins]
        padded_sizes = [size + sum(pad) for size, pad in zip(spatial, pads, strict=True)]
        w.expect(f"places of {spatial} elements", nbytes=8 * math.prod(padded_sizes))
        layout: Literal["F", "C"] = "F" if column_major else "C"
        numbered = np.arange(math.prod(spatial)).reshape(spatial, order=layout)
        return w.constant(np.pad(numbered, pads)[None, None])
    axes: Sequence[int] = range(2, rank)
    order = list(reversed(axes)) if column_major else list(axes)
    sizes = [w.size(w.x[0], axis) for axis in order]
    count = sizes[0]
    for size in sizes[1:]:
        count = w.Mul(count, size)
    numbers = w.Reshape(w.arange(count), shape=[1, 1, *sizes])
    if column_major:
        numbers = w.Transpose(numbers, perm=[0, 1, *(rank - 1 - i for i in range(rank - 2))])
    return padded(w, numbers, wins, rank)


def _first_of_channels(w: Writer, rank: int) -> Value:
    """The index of each channel's first element, int64[N, C, 1...]."""
    shape = w.node.shape(0) or ()
    if None not in shape:
        sizes = [int(size or 0) for size in shape]
        w.expect(f"{sizes[0] * sizes[1]:,} channels", nbytes=8 * sizes[0] * sizes[1])
        firsts = np.arange(sizes[0] * sizes[1]) * math.prod(sizes[2:])
        return w.constant(firsts.reshape(*sizes[:2], *([1] * (rank - 2))))
    batch, channels = w.size(w.x[0], 0), w.size(w.x[0], 1)
    volume = w.size(w.x[0], 2)
    for axis in range(3, rank):
        volume = w.Mul(volume, w.size(w.x[0], axis))
    numbers = w.Mul(w.arange(w.Mul(batch, channels)), volume)
    return w.Reshape(numbers, shape=[batch, channels, *([1] * (rank - 2))])


def _largest(w: Writer, data: Value, places: Value, win: Window) -> tuple[Value, Value]:
    values, positions = taps(w, data, win), taps(w, places, win)
    best, where = values[0], positions[0]
    for value, position in zip(values[1:], positions[1:], strict=True):
        greater = w.Greater(value, best)
        best, where = w.Where(greater, value, best), w.Where(greater, position, where)
    return best, where

"""Writes the cache of keys and values of onnxruntime's GroupQueryAttention."""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import counted, length


@dataclass(frozen=True)
class Places:
    """Says where things are in the cache.

    before, own: by row, the tokens that were there, and the positions of the new ones.
    slots:       0, 1, ... of the cache; `count` of them. room: those of the past. new: the number of new tokens.
    """

    before: Value
    own: Value
    slots: Value
    count: Value
    room: Value
    new: Value


def places(w: Writer, query: Value) -> Places:
    zero, new = w.constant(0), length(w, query, 2)
    room = length(w, w.x[3], 2) if w.node.input(3) else zero
    total = w.Reshape(w.Cast(w.x[6], to="int64"), shape=[])
    count = w.Max(total, room)
    slots, steps = counted(w, count), counted(w, new)
    tokens = w.Add(w.Reshape(w.Cast(w.x[5], to="int64"), shape=[-1, 1]), 1)
    before = w.Where(w.Equal(new, total), zero, w.Sub(tokens, new))
    return Places(before, w.Add(before, steps), slots, count, room, new)


def cached(w: Writer, at: Places, new: Value, index: int, keys: int, size: int, dtype: str) -> Value:
    """The past (input `index`), then the new values, then zeros, gathered from all three put in a row."""
    batch = w.Gather(w.Shape(new), [0])
    zeros = w.Expand(w.number(0.0, dtype), w.Concat(batch, [keys, 1, size], axis=0))
    row = w.Concat(*([w.x[index]] if w.node.input(index) else []), new, zeros, axis=2)
    moved = w.Add(at.slots, w.Sub(at.room, at.before))
    behind = w.Where(w.Less(at.slots, w.Add(at.before, at.new)), moved, w.Add(at.room, at.new))
    place = w.Where(w.Less(at.slots, at.before), at.slots, behind)
    shape = w.vector(batch, keys, w.Unsqueeze(at.count, axes=[0]), size)
    return w.GatherElements(row, w.Expand(w.Unsqueeze(place, axes=[1, 3]), shape), axis=2)

"""Writes the cache of keys and values of onnxruntime's GroupQueryAttention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.attention_forms import counted, length


@dataclass(frozen=True)
class Places:
    """Names of values that say where things are in the cache.

    before, own: by row, the tokens that were there, and the positions of the new ones.
    slots:       0, 1, ... of the cache; `count` of them. room: those of the past. new: the number of new tokens.
    """

    before: str
    own: str
    slots: str
    count: str
    room: str
    new: str


def places(w: Writer, query: str) -> Places:
    zero, new = w.const(np.array(0)), length(w, query, 2)
    room = length(w, "x3", 2) if w.node.input(3) else zero
    total = w.scalar(w.cast("x6", "int64"))
    count = w.do("Max", total, room)
    slots, steps = counted(w, count), counted(w, new)
    tokens = w.do("Add", w.reshape(w.cast("x5", "int64"), [-1, 1]), np.array(1))
    before = w.do("Where", w.do("Equal", new, total), zero, w.do("Sub", tokens, new))
    return Places(before, w.do("Add", before, steps), slots, count, room, new)


def cached(w: Writer, at: Places, new: str, index: int, keys: int, size: int, dtype: str) -> str:
    """The past (input `index`), then the new values, then zeros, gathered from all three put in a row."""
    batch = w.do("Gather", w.do("Shape", new), w.ints(0))
    zeros = w.do("Expand", w.number(0.0, dtype), w.concat([batch, w.ints(keys, 1, size)]))
    row = w.concat([*([f"x{index}"] if w.node.input(index) else []), new, zeros], 2)
    moved = w.do("Add", at.slots, w.do("Sub", at.room, at.before))
    is_new = w.do("Less", at.slots, w.do("Add", at.before, at.new))
    behind = w.do("Where", is_new, moved, w.do("Add", at.room, at.new))
    place = w.do("Where", w.do("Less", at.slots, at.before), at.slots, behind)
    shape = w.concat([batch, w.ints(keys), w.unsqueeze(at.count, [0]), w.ints(size)])
    return w.do("GatherElements", row, w.do("Expand", w.unsqueeze(place, [1, 3]), shape), axis=2)

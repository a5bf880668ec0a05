"""Non-maximum suppression in operators of ONNX: one Loop takes the best box of every image and class at a time.

What boxes are, and which of them overlap, is for the operator to say.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trtsmith.importers.builder import Builder, Operand, Value


class SelectionLoop:
    """Loops over the boxes that are a candidate of some class.

    kept: their numbers. boxes: themselves. boxes_left: how many, int64[1].
    """

    def __init__(self, g: Builder, candidates: Value) -> None:
        """candidates: bool, of the shape of `scores`, [images, classes, boxes]."""
        self._g = g
        sizes = g.Shape("scores")
        self._images, classes, all_boxes = (sizes[i : i + 1] for i in range(3))
        table = g.Reshape(candidates, [self._images * classes, all_boxes])
        no_row = g.Expand(0, [1, all_boxes])  # for models without classes
        padded = g.Concat(g.Cast(table, to="int64"), no_row, axis=0)
        taken = g.GatherElements(padded, g.ArgMax(padded, axis=0, keepdims=1), axis=0)
        self.kept = g.Reshape(g.NonZero(g.Reshape(taken, [-1])), [-1])
        self._open = g.Gather(candidates, self.kept, axis=2)
        self._scores = g.Gather("scores", self.kept, axis=2)
        self.boxes = g.Gather("boxes", self.kept, axis=1)
        self.boxes_left = g.Shape(self.kept)

    def number(self, index: int) -> Value:
        """Returns one number of each box, [images, boxes, 1]."""
        return self._g.Gather(self.boxes, [index], axis=2)

    def row(self, number: Value) -> Value:
        """Arranges a number of each box for the Loop, with an image's boxes in a row: [images, 1, boxes]."""
        return self._g.Transpose(number, perm=[0, 2, 1])

    def select(self, steps: Operand, overlaps: Callable[[Value], Value]) -> tuple[Value, Value]:
        """Returns image, class and box of each selected one, in order, and how many there are.

        steps: int64[1]. overlaps: from a place in a list of the boxes of all images, for each image and class, to the
        boxes that the one there overlaps, bool [images, classes, boxes].
        """
        g = self._g
        count = g.Squeeze(self.boxes_left)
        first_box = g.Reshape(g.arange(self._images) * count, [self._images, 1, 1])
        box_numbers = g.Range(0, count, 1)

        def take_best(_i: Value, _go: Value, open_boxes: Value) -> tuple[Value, ...]:
            only_open = g.Where(open_boxes, self._scores, -np.inf)
            top_score = g.GatherElements(only_open, g.ArgMax(only_open, axis=2, keepdims=1), axis=2)
            is_best = g.Cast(g.Equal(self._scores, top_score) & open_boxes, to="int32")
            best = g.ArgMax(is_best, axis=2, keepdims=1)
            valid = g.GatherElements(open_boxes, best, axis=2)
            over = overlaps(best + first_box)
            still_open = open_boxes & ~(over | g.Equal(box_numbers, best))
            any_open = g.ReduceMax(g.Cast(still_open, to="int32"), keepdims=0)
            return g.Cast(any_open, to="bool"), still_open, best, valid

        signature = """(int64 i, bool keep, bool[B, C, n] open)
            => (bool go_on, bool[B, C, n] open_next, int64[B, C, k] best, bool[B, C, k] valid)"""
        body = g.graph(signature, take_best)
        _, bests, valids = g.Loop(g.Squeeze(steps), True, self._open, body=body, outputs=3)
        flags, chosen = (g.Transpose(value, perm=[1, 2, 0, 3]) for value in (valids, bests))
        pairs = g.Slice(g.NonZero(flags), [0], [2])
        boxes = g.Compress(g.Reshape(chosen, [-1]), g.Reshape(flags, [-1]), axis=0)
        numbers = g.Reshape(g.Gather(self.kept, boxes, axis=0), [1, -1])
        selected = g.Transpose(g.Concat(pairs, numbers, axis=0), perm=[1, 0])
        return selected, g.Cast(g.Gather(g.Shape(selected), 0, axis=0), to="int32")

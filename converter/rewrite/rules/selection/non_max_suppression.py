"""Unrolls NonMaxSuppression whose model declares the number of selected boxes.

TensorRT-RTX has no kernel for its layer. How many boxes are left depends on the data, which standard operators cannot
express; a model that declares the number promises it, and then the first that many rows are the result. Other models
keep the node, which TensorRT itself takes.

All images and classes take a step at once: the best score that is left, then out with all boxes that overlap its box by
more than the threshold. As in onnxruntime, a score has to be above its threshold, of equal ones the first box wins, and
boxes without an area overlap nothing.

Replaces NonMaxSuppression of a number of boxes that only a run tells with our plugin.

TensorRT-RTX has a layer for it and no kernel for the layer.
"""

from __future__ import annotations

from shlex import quote
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("NonMaxSuppression")
NO_LIMIT: Any = PLUGIN.field("most").default


@node_rule("non-max-suppression-plugin", "NonMaxSuppression", flavour="tensorrt_rtx")
def non_max_suppression_plugin_rule(node: NodeView) -> Replacement | None:
    """Rewrites NonMaxSuppression as a plugin."""
    if node.opset < 10 or {node.dtype(0), node.dtype(1)} != {"float32"}:
        return None
    most = node.constant(2)
    bound = (
        0
        if not node.input(2)
        else NO_LIMIT
        if most is None
        else min(max(int(most.reshape(-1)[0]), 0), NO_LIMIT)
    )
    fields = {"center_point_box": int(node.attributes.get("center_point_box", 0)), "most": bound}
    w = Writer(node)
    limits = [
        w.Reshape(w.x[2], shape=[1]) if node.input(2) else [0],
        w.Reshape(w.x[3], shape=[1]) if node.input(3) else [0.0],
        *([w.Reshape(w.x[4], shape=[1])] if node.input(4) else []),
    ]
    boxes, _ = plugin_outputs(w, PLUGIN, [*w.x[:2], *limits], fields)
    return Replacement(w.finish(boxes), f"plugin {PLUGIN.name}")


_STEPS = 64
"""Boxes for each class up to which the selection is unrolled, at about twenty nodes each."""

_MOST_ROWS = 3840
"""TensorRT's TopK selects no more."""

_PROMISE = (
    "NonMaxSuppression always gives the number of boxes that the model declares: where ONNX has fewer, the rows at the "
    "end are -1, and where it has more, they are cut"
)


@node_rule("non-max-suppression", "NonMaxSuppression")
def non_max_suppression_rule(node: NodeView) -> Replacement | Refusal | None:
    """Unrolls NonMaxSuppression with a declared number of boxes."""
    declared, scores = node.output_shape(0), node.shape(1)
    rows = declared[0] if declared else None
    if rows is None or scores is None or len(scores) != 3 or None in scores or node.opset < 11:
        return None
    batch, classes, boxes = (int(n or 0) for n in scores)
    numbers = [_number(node, index) for index in (2, 3, 4)]
    for index, number in zip((2, 3, 4), numbers, strict=True):
        if node.input(index) and number is None:
            return Refusal(
                f"{node.input(index)!r} is computed at run time",
                "a constant",
                f"freeze it: --freeze {quote(node.input(index))}=VALUE",
            )
    steps = min(int(numbers[0] or 0), boxes)
    if steps > _STEPS or rows > _MOST_ROWS:
        return None
    w = Writer(node)
    if not steps or not rows:
        empty = w.constant(np.full((rows, 3), -1, np.int64))
        return Replacement(w.finish(empty), "NonMaxSuppression of nothing", numerics=_PROMISE if rows else "")
    selection = _Selection(w, node, batch, boxes, float(numbers[1] or 0.0), numbers[2])
    chosen = [selection.step() for _ in range(steps)]
    found = w.Concat(*[best for best, _ in chosen], axis=2)  # [batch, classes, steps]
    valid = w.Concat(*[there for _, there in chosen], axis=2)
    nodes = w.finish(_first_rows(w, found, valid, (batch, classes, steps), rows))
    return Replacement(nodes, f"NonMaxSuppression in {steps} unrolled steps", numerics=_PROMISE)


def _number(node: NodeView, index: int) -> float | None:
    value = node.constant(index)
    return None if value is None else float(value.reshape(-1)[0])


class _Selection:
    """The remaining scores, and all boxes as corners [batch, 1, boxes] with their areas."""

    def __init__(
        self, w: Writer, node: NodeView, batch: int, boxes: int, overlap: float, floor: float | None
    ) -> None:
        self.w = w
        self.overlap = float(overlap)
        self.gone = float("-inf")
        self.numbers = w.constant(w.numbers(boxes))
        columns = [w.Squeeze(w.slice(w.x[0], [i], [i + 1], [2]), axes=[2]) for i in range(4)]
        if node.attributes.get("center_point_box"):
            halves = [w.Mul(size, 0.5) for size in columns[2:]]
            low = [w.Sub(c, h) for c, h in zip(columns[:2], halves, strict=True)]
            high = [w.Add(c, h) for c, h in zip(columns[:2], halves, strict=True)]
        else:
            low = [w.Min(columns[i], columns[i + 2]) for i in range(2)]
            high = [w.Max(columns[i], columns[i + 2]) for i in range(2)]
        sides = [w.Sub(h, s) for h, s in zip(high, low, strict=True)]
        self.flat = [w.Reshape(part, [-1]) for part in (*low, *high)]
        self.parts = [w.Unsqueeze(part, axes=[1]) for part in (*low, *high)]  # [batch, 1, boxes]
        self.area = w.Unsqueeze(w.Mul(*sides), axes=[1])
        self.flat_area = w.Reshape(self.area, [-1])
        self.image = w.constant(w.numbers(batch).reshape(-1, 1, 1) * boxes)
        if floor is None:
            self.scores = w.x[1]
        else:
            self.scores = w.Where(w.Greater(w.x[1], float(floor)), w.x[1], self.gone)

    def step(self) -> tuple[Value, Value]:
        """Selects the best box of each class, int64[batch, classes, 1], and tells whether there was one."""
        w = self.w
        best = w.ArgMax(self.scores, axis=2, keepdims=1)
        valid = w.Greater(w.reduce("ReduceMax", self.scores, [2]), self.gone)
        spot = w.Add(best, self.image)
        low_y, low_x, high_y, high_x = (w.Gather(part, spot, axis=0) for part in self.flat)
        height = self._shared(low_y, high_y, 0)
        width = self._shared(low_x, high_x, 1)
        common = w.Mul(height, width)
        union = w.Sub(w.Add(self.area, w.Gather(self.flat_area, spot, axis=0)), common)
        # common > 0 holds only if both boxes have an area: nothing is divided by zero unless it is left out.
        zero = 0.0
        real = w.And(w.Greater(common, zero), w.Greater(union, zero))
        over = w.And(real, w.Greater(w.Div(common, w.Where(real, union, 1.0)), self.overlap))
        self.scores = w.Where(w.Or(over, w.Equal(self.numbers, best)), self.gone, self.scores)
        return best, valid

    def _shared(self, low: Value, high: Value, axis: int) -> Value:
        """The overlap of each box with the selected one along an axis, at least 0."""
        w = self.w
        return w.Max(w.Sub(w.Min(self.parts[axis + 2], high), w.Max(self.parts[axis], low)), 0.0)


def _first_rows(w: Writer, index: Value, valid: Value, shape: tuple[int, int, int], rows: int) -> Value:
    """(image, class, box) of the first `rows` valid selections, padded with -1."""
    batch, classes, steps = shape
    total = batch * classes * steps
    w.expect(f"{total:,} selected boxes", nbytes=24 * total)
    image, label, _ = np.indices(shape)
    where = w.constant(np.stack([image, label], -1).reshape(total, 2))
    table = w.Concat(where, w.Reshape(index, shape=[total, 1]), axis=1)
    flag = w.Reshape(valid, shape=[total])
    # The earlier a valid row stands, the larger its key; TopK of distinct keys is a stable selection.
    keys = w.Where(flag, np.arange(total, 0, -1, dtype=np.float32), 0.0)
    key, order = w.TopK(keys, [min(rows, total)], outputs=2, axis=0)
    result = w.Where(w.Unsqueeze(w.Greater(key, 0.0), axes=[1]), w.Gather(table, order, axis=0), -1)
    if rows > total:
        result = w.Concat(result, np.full((rows - total, 3), -1, np.int64), axis=0)
    return result

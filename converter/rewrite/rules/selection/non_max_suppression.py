"""Unrolls NonMaxSuppression whose model declares how many boxes it gives.

TensorRT-RTX has no kernel for its layer. How many boxes are left depends on the data, which standard operators cannot
express; a model that declares the number promises it, and then the first that many rows are the result. Other models
keep the node, which TensorRT itself takes.

All images and classes take a step at once: the best score that is left, then out with all boxes that overlap its box by
more than the threshold. As in onnxruntime, a score has to be above its threshold, of equal ones the first box wins, and
boxes without an area overlap nothing.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

_STEPS = 64
"""Boxes for each class up to which the selection is unrolled, at about twenty nodes each."""

_MOST_ROWS = 3840
"""TensorRT's TopK selects no more."""

_PROMISE = (
    "NonMaxSuppression always gives the number of boxes that the model declares: where ONNX has fewer, the rows at the "
    "end are -1, and where it has more, they are cut"
)


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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
                f"freeze it: --freeze {node.input(index)}=VALUE",
            )
    steps = min(int(numbers[0] or 0), boxes)
    if steps > _STEPS or rows > _MOST_ROWS:
        return None
    w = Writer(node)
    if not steps or not rows:
        empty = w.const(np.full((rows, 3), -1, np.int64))
        w.do("Identity", empty, result="y0")
        return Replacement(w.nodes(), "NonMaxSuppression of nothing", numerics=_PROMISE if rows else "")
    selection = _Selection(w, node, batch, boxes, float(numbers[1] or 0.0), numbers[2])
    chosen = [selection.step() for _ in range(steps)]
    found = w.concat([best for best, _ in chosen], 2)  # [batch, classes, steps]
    valid = w.concat([there for _, there in chosen], 2)
    _first_rows(w, found, valid, (batch, classes, steps), rows)
    return Replacement(w.nodes(), f"NonMaxSuppression in {steps} unrolled steps", numerics=_PROMISE)


def _number(node: NodeView, index: int) -> float | None:
    value = node.constant(index)
    return None if value is None else float(value.reshape(-1)[0])


class _Selection:
    """The scores that are left, and all boxes as corners [batch, 1, boxes, 1] with their areas."""

    def __init__(
        self, w: Writer, node: NodeView, batch: int, boxes: int, overlap: float, floor: float | None
    ) -> None:
        self.w = w
        self.overlap = w.number(overlap, "float32")
        self.gone = w.number(float("-inf"), "float32")
        self.numbers = w.const(np.arange(boxes))
        columns = [w.squeeze(w.slice_("x0", [i], [i + 1], [2]), [2]) for i in range(4)]
        if node.attributes.get("center_point_box"):
            halves = [w.do("Mul", size, w.number(0.5, "float32")) for size in columns[2:]]
            low = [w.do("Sub", c, h) for c, h in zip(columns[:2], halves, strict=True)]
            high = [w.do("Add", c, h) for c, h in zip(columns[:2], halves, strict=True)]
        else:
            low = [w.do("Min", columns[i], columns[i + 2]) for i in range(2)]
            high = [w.do("Max", columns[i], columns[i + 2]) for i in range(2)]
        sides = [w.do("Sub", h, s) for h, s in zip(high, low, strict=True)]
        self.flat = [w.do("Reshape", part, w.ints(-1)) for part in (*low, *high)]
        self.parts = [w.unsqueeze(part, [1]) for part in (*low, *high)]  # [batch, 1, boxes]
        self.area = w.unsqueeze(w.do("Mul", *sides), [1])
        self.flat_area = w.do("Reshape", self.area, w.ints(-1))
        self.image = w.const(np.arange(batch).reshape(-1, 1, 1) * boxes)
        if floor is None:
            self.scores = "x1"
        else:
            above = w.do("Greater", "x1", w.number(floor, "float32"))
            self.scores = w.do("Where", above, "x1", self.gone)

    def step(self) -> tuple[str, str]:
        """The best box of each class, int64[batch, classes, 1], and whether there was one."""
        w = self.w
        best = w.do("ArgMax", self.scores, axis=2, keepdims=1)
        valid = w.do("Greater", w.reduce("ReduceMax", self.scores, [2]), self.gone)
        spot = w.do("Add", best, self.image)
        low_y, low_x, high_y, high_x = (w.do("Gather", part, spot, axis=0) for part in self.flat)
        height = self._shared(low_y, high_y, 0)
        width = self._shared(low_x, high_x, 1)
        common = w.do("Mul", height, width)
        own = w.do("Gather", self.flat_area, spot, axis=0)
        union = w.do("Sub", w.do("Add", self.area, own), common)
        # common > 0 holds only if both boxes have an area: nothing is divided by zero unless it is left out.
        zero = w.number(0.0, "float32")
        real = w.do("And", w.do("Greater", common, zero), w.do("Greater", union, zero))
        ratio = w.do("Div", common, w.do("Where", real, union, w.number(1.0, "float32")))
        over = w.do("And", real, w.do("Greater", ratio, self.overlap))
        out = w.do("Or", over, w.do("Equal", self.numbers, best))
        self.scores = w.do("Where", out, self.gone, self.scores)
        return best, valid

    def _shared(self, low: str, high: str, axis: int) -> str:
        """Length that each box has in common with the chosen ones, not negative."""
        w = self.w
        end = w.do("Min", self.parts[axis + 2], high)
        begin = w.do("Max", self.parts[axis], low)
        return w.do("Max", w.do("Sub", end, begin), w.number(0.0, "float32"))


def _first_rows(w: Writer, index: str, valid: str, shape: tuple[int, int, int], rows: int) -> None:
    """(image, class, box) of the first `rows` that are valid, -1 where there are fewer."""
    batch, classes, steps = shape
    total = batch * classes * steps
    image, label, _ = np.indices(shape)
    where = w.const(np.stack([image, label], -1).reshape(total, 2))
    box = w.reshape(index, [total, 1])
    table = w.concat([where, box], 1)
    flag = w.reshape(valid, [total])
    # The earlier a valid row stands, the larger its key; TopK of distinct keys is a stable selection.
    keys = w.do("Where", flag, w.const(np.arange(total, 0, -1, dtype=np.float32)), w.number(0.0, "float32"))
    taken = min(rows, total)
    key, order = w.name(), w.name()
    w.many("TopK", [keys, w.ints(taken)], [key, order], axis=0)
    chosen = w.do("Gather", table, order, axis=0)
    there = w.unsqueeze(w.do("Greater", key, w.number(0.0, "float32")), [1])
    result = w.do("Where", there, chosen, w.number(-1, "int64"))
    if rows > total:
        result = w.concat([result, w.const(np.full((rows - total, 3), -1, np.int64))], 0)
    w.do("Identity", result, result="y0")


NON_MAX_SUPPRESSION = NodeRule(
    "non-max-suppression",
    "NonMaxSuppression of a declared number of boxes becomes an unrolled selection",
    ("NonMaxSuppression",),
    _rewrite,
)

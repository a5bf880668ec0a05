"""Expands the selection of rotated boxes into operators of ONNX."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.selection._rotated_share_onnx import LEAST_SHARE, RotatedBoxes, prepare, share
from trtsmith.importers.ops.selection._selection_loop_onnx import SelectionLoop


def expand(expansion: Expansion) -> tuple[Value, Value]:
    g = Builder(expansion.opset)
    fields = expansion.fields
    (scores,) = g.inputs("scores")
    loop = SelectionLoop(g, scores > fields["score_threshold"])
    x, y, width, height, angle = (loop.number(i) for i in range(5))
    columns = prepare(g, x, y, width, height, angle, clockwise=bool(fields["clockwise"]))
    lists = {
        row: g.Reshape(column, [-1]) for row, column in zip(map(loop.row, columns), columns, strict=True)
    }
    boxes = RotatedBoxes(*lists)

    def overlaps(place: Value) -> Value:
        shares = share(g, boxes, lambda number: g.Gather(lists[number], place, axis=0))
        some = shares > LEAST_SHARE
        return some & (shares > float(fields["iou_threshold"]))

    steps, _ = g.TopK([fields["most"], loop.boxes_left], [1], axis=0, largest=0, outputs=2)
    return loop.select(steps, overlaps)

"""NonMaxSuppression in other operators of ONNX.

Boxes that no class may take are left out before. All arithmetic is that of ONNX's own operator, in float32: corners, areas,
and intersection over union, so that no box is on the other side of a threshold.
"""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.selection._selection_loop_onnx import SelectionLoop


def expand(expansion: Expansion) -> tuple[Value, Value]:
    """A box of which a corner is no number, or that has no end, has no area here, and so overlaps none."""
    g = Builder(expansion.opset)
    (scores,) = g.inputs("scores")
    limited = "score_threshold" in expansion.present
    loop = SelectionLoop(g, scores > "score_threshold" if limited else g.Equal(scores, scores))
    given = [loop.number(i) for i in range(4)]
    if expansion.fields["center_point_box"]:
        x, y, half_width, half_height = given[0], given[1], given[2] / 2.0, given[3] / 2.0
        low_y, low_x, high_y, high_x = y - half_height, x - half_width, y + half_height, x + half_width
    else:
        low_y, low_x = g.Min(given[0], given[2]), g.Min(given[1], given[3])
        high_y, high_x = g.Max(given[0], given[2]), g.Max(given[1], given[3])
    no_numbers = g.IsNaN(g.Sum(low_y, low_x, high_y, high_x))
    area = g.Where(no_numbers, 0.0, (high_y - low_y) * (high_x - low_x))
    columns = (low_y, low_x, high_y, high_x, area)
    y0, x0, y1, x1, area = map(loop.row, columns)
    lists = [g.Reshape(column, [-1]) for column in columns]

    def overlaps(place: Value) -> Value:
        best_y0, best_x0, best_y1, best_x1, best_area = (g.Gather(each, place, axis=0) for each in lists)
        common_y = g.Min(y1, best_y1) - g.Max(y0, best_y0)
        common_x = g.Min(x1, best_x1) - g.Max(x0, best_x0)
        common = common_y * common_x
        either = area + best_area - common
        real_boxes = (common_y > 0.0) & (common_x > 0.0) & ((area > 0.0) & (best_area > 0.0))
        real = real_boxes & ((common > 0.0) & (either > 0.0))
        return (common / either > "iou_threshold") & real

    most = expansion.fields["most"]
    bounds = ["max_output_boxes_per_class", most, loop.boxes_left]
    wanted, _ = g.TopK(bounds, [1], axis=0, largest=0, outputs=2)
    steps, _ = g.TopK([wanted, 0], [1], axis=0, outputs=2)
    return loop.select(steps, overlaps)

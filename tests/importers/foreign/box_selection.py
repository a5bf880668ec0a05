"""NonMaxSuppression by its plugin: shapes that it does not take."""

from __future__ import annotations

from tests.importers.foreign.model import Inconsistent

SHAPES = {
    "boxes": (2, 7, 4),
    "scores": (2, 3, 7),
    "max_output_boxes_per_class": (1,),
    "iou_threshold": (1,),
}
FIELDS = {"center_point_box": 0, "most": 5}
INCONSISTENT = tuple(
    Inconsistent("BoxSelection", SHAPES, {name: shape}, message, FIELDS)
    for name, shape, message in (
        ("boxes", (2, 7, 5), "boxes[2] = 5"),
        ("boxes", (1, 7, 4), "boxes[0] = 1, not 2 = scores[0]"),
        ("boxes", (2, 8, 4), "boxes[1] = 8, not 7 = scores[2]"),
        ("iou_threshold", (2,), "iou_threshold has 2 elements, not 1"),
    )
)

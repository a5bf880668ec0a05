"""Lists the forms in which other tools write the selection of boxes of one image and class: torchvision's and mmcv's nms."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal
from trtsmith.importers.ops.selection._selected_boxes import NO_LIMIT, kept, one_image


def _fields(_node: AliasedNode) -> Fields:
    return {"center_point_box": 0, "most": NO_LIMIT}


def _prologue(node: AliasedNode) -> dict[str, Value]:
    """One image and one class. Boxes of half precision are compared in float32.

    With an offset, sides of boxes, and of what two have in common, are larger by it.
    """
    g = node.builder()
    rows, scores = (
        value if node.dtypes.get(value.name) == "float32" else g.Cast(value, to="float32")
        for value in g.inputs("rows", "row_scores")
    )
    made = one_image(rows, scores)
    if node.attrs.get("offset", 0):
        made["boxes"] += np.array([0, 0, 1, 1], np.float32)
    return {
        **made,
        "max_output_boxes_per_class": g.constant([NO_LIMIT]),
        "iou_threshold": g.constant([node.attrs["iou_threshold"]]),
    }


def _mmcv_guard(node: AliasedNode) -> Refusal | None:
    threshold = node.attrs["iou_threshold"]
    if threshold < 0:
        return Refusal(f"iou_threshold = {threshold}", "0 or more", "correct 'iou_threshold'")
    if node.attrs["offset"] in (0, 1):
        return None
    return Refusal(
        f"offset = {node.attrs['offset']}: sides of boxes are larger by it",
        "offset = 0 or 1",
        "correct 'offset'",
    )


BOX_SELECTION_ALIASES = (
    Alias(
        op_type="nms",
        domains=("torchvision",),
        inputs=("rows", "row_scores"),
        constants=(Attr("iou_threshold", Kind.FLOAT),),
        outputs=("kept",),
        fields=_fields,
        prologue=_prologue,
        epilogue=kept,
        source="torchvision, exported with ONNX_FALLTHROUGH",
    ),
    Alias(
        op_type="NonMaxSuppression",
        domains=("mmcv",),
        inputs=("rows", "row_scores"),
        attributes=(Attr("iou_threshold", Kind.FLOAT), Attr("offset", Kind.INT)),
        outputs=("kept",),
        guard=_mmcv_guard,
        fields=_fields,
        prologue=_prologue,
        epilogue=kept,
        source="mmcv 1.x, ops/nms.py",
    ),
)

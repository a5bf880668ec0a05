"""Lists the forms in which other tools write the selection of boxes of one image and class: torchvision's and mmcv's nms."""

from __future__ import annotations

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal
from trtsmith.importers.ops.selection._selected_boxes import KEPT, NO_LIMIT, one_image


def _fields(_node: AliasedNode) -> Fields:
    return {"center_point_box": 0, "most": NO_LIMIT}


def _float32(node: AliasedNode, name: str) -> str:
    return "" if node.dtypes.get(name) == "float32" else f"bs_{name} = Cast <to = 1> ({name})\n"


def _prologue(node: AliasedNode) -> str:
    """One image and one class. Boxes of half precision are compared in float32."""
    wide = {name: _float32(node, name) for name in ("rows", "row_scores")}
    offset = bool(node.attrs.get("offset", 0))
    grown = "_as_given" if offset else ""
    rows, scores = (f"bs_{name}" if cast else name for name, cast in wide.items())
    limits = f"""max_output_boxes_per_class = Constant <value = int64[1] {{{NO_LIMIT}}}> ()
iou_threshold = Constant <value = float[1] {{{node.attrs["iou_threshold"]!r}}}> ()
{_GROWN if offset else ""}"""
    return "".join(wide.values()) + one_image(rows, scores, "boxes" + grown) + limits


_GROWN = """bs_pixel = Constant <value = float[4] {0.0, 0.0, 1.0, 1.0}> ()
boxes = Add (boxes_as_given, bs_pixel)
"""
"""Sides of boxes, and of what two have in common, are larger by 1 where the second corner is 1 farther away."""


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
        epilogue=KEPT,
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
        epilogue=KEPT,
        source="mmcv 1.x, ops/nms.py",
    ),
)

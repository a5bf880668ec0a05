"""Lists the forms in which other tools write the selection of rotated boxes: mmdeploy's and detectron2's."""

from __future__ import annotations

import math

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.dtypes import FLOATS
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal
from trtsmith.importers.ops.selection._selected_boxes import NO_LIMIT, kept, one_image

_LOWEST = float(np.finfo(np.float32).min)


def _fields(node: AliasedNode) -> Fields:
    names = ("iou_threshold", "score_threshold", "clockwise")
    return {name: node.attrs[name] for name in names} | {"most": NO_LIMIT}


def _guard(node: AliasedNode) -> Refusal | None:
    clockwise = {"clockwise": FLAG} if "clockwise" in node.attrs else {}
    return value_refusal(node, {"iou_threshold": [0, 1], **clockwise})


def _detectron2_fields(node: AliasedNode) -> Fields:
    """All scores are those of candidates, but for infinite ones below 0."""
    given = {"iou_threshold": node.attrs["iou_threshold"], "score_threshold": _LOWEST}
    return given | {"clockwise": 0, "most": NO_LIMIT}


def _in_radians(node: AliasedNode) -> dict[str, Value]:
    """One image and one class. Angles in degrees are turned into radians, in the dtype of the boxes."""
    g = node.builder()
    rows, scores = g.inputs("rows", "row_scores")
    dtype = node.dtypes.get("rows")
    factors = g.Cast([1.0, 1.0, 1.0, 1.0, math.pi / 180], to=dtype if dtype in FLOATS else "float32")
    return one_image(rows * factors, scores)


ROTATED_BOX_SELECTION_ALIASES = (
    Alias(
        op_type="NMSRotated",
        domains=("mmdeploy", "mmcv"),
        inputs=("boxes", "scores"),
        attributes=attrs(iou_threshold=float, score_threshold=float, clockwise=1),
        outputs=("selected",),
        guard=_guard,
        fields=_fields,
        source="mmdeploy, nms_rotated.cpp for onnxruntime; clockwise: mmcv, ops/nms.py",
    ),
    Alias(
        op_type="nms_rotated",
        domains=("detectron2",),
        inputs=("rows", "row_scores"),
        constants=(Attr("iou_threshold", Kind.FLOAT),),
        outputs=("kept",),
        guard=_guard,
        fields=_detectron2_fields,
        prologue=_in_radians,
        epilogue=kept,
        source="detectron2, layers/nms.py, exported with ONNX_FALLTHROUGH",
    ),
)

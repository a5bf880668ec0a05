"""Describes BatchedNMS as NVIDIA and mmdeploy write it: scores above thresholds, best candidates of each class first.

Differences that are meant: corners may be in any order, also where mmdeploy takes a box with swapped corners for one without
an area. More rows than candidates of a class, for which both write nothing, are filled. With pixels, boxes that do not touch
have nothing in common; NVIDIA's gives them one pixel. Rotated boxes without an area overlap nothing; for mmdeploy they
overlap everything.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import describe
from trtsmith.importers.dtypes import FLOATS
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal


def _guard(node: AliasedNode, flags: tuple[str, ...], classes: str) -> Refusal | None:
    if (refusal := value_refusal(node, dict.fromkeys(flags, FLAG))) is not None:
        return refusal
    count, shape = node.attrs[classes], node.shapes.get("scores")
    have = shape[2] if shape is not None and len(shape) > 2 else None
    if count < 1 or have not in (None, count):
        expected = f"{classes}: the number of classes" if have is None else f"{have}, as scores have"
        return Refusal(f"{classes} = {count}", expected, f"correct {classes!r}")
    return None


def _nvidia_guard(node: AliasedNode) -> Refusal | None:
    attrs = node.attrs
    refusal = _guard(node, ("shareLocation", "isNormalized", "clipBoxes", "caffeSemantics"), "numClasses")
    # Rows without a detection have score 0 there, and come before scores below it.
    least = {"scoreThreshold": 0, "iouThreshold": 0, "topK": 1}
    if (refusal := refusal or value_refusal(node, least)) is not None:
        return refusal
    if not attrs["isNormalized"] and not attrs["caffeSemantics"]:
        return Refusal(
            "caffeSemantics = 0 with isNormalized = 0: boxes get one pixel more in each direction, their intersection "
            "does not",
            "caffeSemantics = 1, or isNormalized = 1",
            "set caffeSemantics to 1, or isNormalized to 1 where boxes are not in pixels",
        )
    shape = node.shapes.get("boxes")
    if shape is not None and (len(shape) != 4 or (attrs["shareLocation"] and shape[2] not in (1, None))):
        wanted = "[N, B, 1, 4]" if attrs["shareLocation"] else "[N, B, C, 4]"
        return Refusal(
            f"boxes are {describe(shape)}", wanted, "correct 'shareLocation', or reshape the boxes"
        )
    return None


def _nvidia_fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return plain_fields(
        score_threshold=attrs["scoreThreshold"],
        iou_threshold=attrs["iouThreshold"],
        max_output_boxes=attrs["keepTopK"],
        topk=attrs["topK"],
        background_class=attrs["backgroundLabelId"],
        pixels=1 - attrs["isNormalized"],
        clip=attrs["clipBoxes"],
    )


def plain_fields(**own: float) -> Fields:
    same = {
        "inclusive": 0,
        "topk": 0,
        "background_class": -1,
        "class_agnostic": 0,
        "box_coding": 0,
        "prob_iou": 0,
        "polygon_iou": 0,
        "pixels": 0,
        "clip": 0,
        "class_major": 1,
        "zero_filler": 0,
    }
    return same | own


def _nvidia_epilogue(node: AliasedNode) -> dict[str, Value]:
    """Classes are numbers of the boxes' dtype."""
    dtype = node.dtypes.get("boxes")
    number = dtype if dtype in FLOATS else "float32"
    return {"nmsed_classes": node.builder().Cast("detection_classes", to=number)}


def _mmdeploy_guard(node: AliasedNode) -> Refusal | None:
    refusal = _guard(node, ("clip_boxes", "return_index"), "num_classes")
    shape = node.shapes.get("boxes")
    if refusal is None and shape is not None and len(shape) != 4:
        refusal = Refusal(f"boxes are {describe(shape)}", "[N, B, 1, 4] or [N, B, C, 4]", "reshape the boxes")
    return refusal


def _rotated_guard(node: AliasedNode) -> Refusal | None:
    refusal = _mmdeploy_guard(node)
    if refusal is None and node.attrs["clip_boxes"]:
        refusal = Refusal(
            "clip_boxes = 1, which clips centres, sizes and angles of rotated boxes to the range 0 to 1",
            "clip_boxes = 0, as mmdeploy's exporter writes it",
            "set clip_boxes to 0",
        )
    return refusal


def _mmdeploy_fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return plain_fields(
        score_threshold=attrs["score_threshold"],
        iou_threshold=attrs["iou_threshold"],
        max_output_boxes=attrs["keep_topk"],
        topk=attrs["topk"],
        background_class=attrs["background_label_id"],
        clip=attrs["clip_boxes"],
    )


def _mmdeploy_epilogue(node: AliasedNode) -> dict[str, Value]:
    """The score is the fifth column. With a box for each class the index is class * B + box."""
    g = node.builder()
    boxes, scores, classes, index = g.inputs(
        "boxes", "detection_scores", "detection_classes", "detection_indices"
    )
    column = g.Reshape(scores, [g.Shape(scores), 1])
    shape = node.shapes.get("boxes")
    if shape is None or shape[2] != 1:
        sizes = g.Shape(boxes)
        several = g.Cast(g.Cast(sizes[2:3] - [1], to="bool"), to="int64")
        place = classes * g.Cast(sizes[1:2] * several, to="int32") + index
        index = g.Where(index < np.int32(0), np.int32(-1), place)
    return {"dets": g.Concat("detection_boxes", column, axis=2), "index": index}


def _nvidia(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("TRT", "trt"),
        inputs=("boxes", "scores"),
        attributes=(
            *attrs(shareLocation=int, backgroundLabelId=int, numClasses=int, topK=int, keepTopK=int),
            *attrs(scoreThreshold=float, iouThreshold=float, isNormalized=int, clipBoxes=1),
            Attr("scoreBits", Kind.INT, ignored=True),
            Attr("caffeSemantics", Kind.INT, 1),
        ),
        outputs=("num_detections", "detection_boxes", "detection_scores", "nmsed_classes"),
        guard=_nvidia_guard,
        fields=_nvidia_fields,
        epilogue=_nvidia_epilogue,
        source="NVIDIA TensorRT OSS to release 8.6, batchedNMSPlugin",
    )


_MMDEPLOY = Alias(
    op_type="TRTBatchedNMS",
    domains=("mmdeploy",),
    inputs=("boxes", "scores"),
    attributes=(
        *attrs(background_label_id=-1, num_classes=int, topk=int, keep_topk=int, score_threshold=float),
        *attrs(iou_threshold=float),
        Attr("is_normalized", Kind.INT, ignored=True),
        *attrs(clip_boxes=1, return_index=0),
    ),
    outputs=("dets", "detection_classes", "index"),
    guard=_mmdeploy_guard,
    fields=_mmdeploy_fields,
    epilogue=_mmdeploy_epilogue,
    source="mmdeploy, trt_batched_nms.cpp",
)

_ROTATED = replace(
    _MMDEPLOY,
    op_type="TRTBatchedRotatedNMS",
    guard=_rotated_guard,
    fields=lambda node: {**_mmdeploy_fields(node), "polygon_iou": 1},
    source="mmdeploy, trt_batched_rotated_nms.cpp",
)


_BEV_SOURCE = "mmdeploy, trt_batched_bev_nms.cpp, for mmdet3d: the same kernel"

BATCHED_NMS = (
    _nvidia("BatchedNMSDynamic_TRT"),
    _nvidia("BatchedNMS_TRT"),
    _ROTATED,
    replace(_ROTATED, op_type="TRTBatchedBEVNMS", source=_BEV_SOURCE),
    _MMDEPLOY,
)

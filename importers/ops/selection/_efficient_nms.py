"""Describes EfficientNMS and its relatives: scores by box, inclusive thresholds, rows filled with zeros.

Differences that are meant: no more than 5,000 candidates of an image take part in NVIDIA's, and half precision is computed
in half there; below a score threshold of 0.007 rejected boxes get into spare rows there.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import Alias, AliasedNode, Fields, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal
from trtsmith.importers.ops.selection._batched_nms import plain_fields

LEAST_LOGIT = -32768.0
"""Where NVIDIA puts the threshold of raw scores when every score is to pass."""

_ATTRIBUTES = attrs(
    score_threshold=float,
    iou_threshold=float,
    max_output_boxes=int,
    background_class=-1,
    score_activation=0,
    class_agnostic=0,
    box_coding=0,
)


def _prologue(node: AliasedNode) -> dict[str, Value]:
    """Boxes decoded from anchors where there are any: corners add up, sizes are exponents without variances."""
    g = node.builder()
    boxes, anchors = g.inputs("box_input", "anchors")
    if "anchors" not in node.present:
        return {"boxes": boxes}
    shape = g.Shape(boxes)
    groups = g.vector(shape[2:-1], 1)[:1]
    raw = g.Reshape(boxes, [shape[:2], groups, 4])
    anchor = g.Reshape(anchors, [g.Shape(anchors)[:2], 1, 4])
    (raw_first, raw_second), (anchor_first, anchor_second) = (
        (g.Slice(value, [0], [2], [-1]), g.Slice(value, [2], [4], [-1])) for value in (raw, anchor)
    )
    if node.attrs["box_coding"]:
        first = raw_first * anchor_second + anchor_first
        second = anchor_second * g.Exp(raw_second)
    else:
        first = g.Min(raw_first, raw_second) + g.Min(anchor_first, anchor_second)
        second = g.Max(raw_first, raw_second) + g.Max(anchor_first, anchor_second)
    return {"boxes": g.Concat(first, second, axis=3)}


def _epilogue(node: AliasedNode) -> dict[str, Value]:
    """Scores of detections get their sigmoid when they are selected, as in NVIDIA's kernel; other rows stay zero."""
    g = node.builder()
    scores, count = g.inputs("detection_scores", "num_detections")
    if not node.attrs["score_activation"]:
        return {"det_scores": scores}
    row = g.Range(np.int32(0), np.int32(node.attrs["max_output_boxes"]), np.int32(1))
    score = g.Sigmoid(scores)
    return {"det_scores": g.Where(row < count, score, score - score)}


def raw_threshold(threshold: float) -> float:
    """Returns the raw score whose sigmoid is the threshold."""
    if threshold <= 0:
        return LEAST_LOGIT
    if threshold >= 1:
        return float(np.finfo(np.float32).max)
    return math.log(threshold / (1 - threshold))


def _guard(node: AliasedNode) -> Refusal | None:
    flags = dict.fromkeys(("score_activation", "class_agnostic", "box_coding"), FLAG)
    if (refusal := value_refusal(node, flags)) is not None:
        return refusal
    shape = node.shapes.get("anchors")
    if shape is not None and len(shape) != 3:
        return Refusal(f"anchors are {describe(shape)}", "[1, B, 4] or [N, B, 4]", "reshape them")
    return None


def _index_guard(node: AliasedNode) -> Refusal | None:
    """The plugin's index with a box for each class is (box * C + class) modulo B, from which no box can be told."""
    shape = node.shapes.get("box_input")
    if shape is not None and len(shape) == 4 and shape[2] not in (1, None):
        return Refusal(
            f"boxes are {describe(shape)}, and the plugin's index means nothing for a box of each class",
            "[N, B, 4] or [N, B, 1, 4]",
            "use EfficientNMS_TRT, or one box for all classes",
        )
    return _guard(node)


def _fields(node: AliasedNode) -> Fields:
    attrs = dict(node.attrs)
    threshold, raw = attrs["score_threshold"], attrs.pop("score_activation")
    attrs["score_threshold"] = raw_threshold(threshold) if raw else threshold
    return plain_fields(**attrs, inclusive=1, class_major=0, zero_filler=1)


_EFFICIENT = Alias(
    op_type="EfficientNMS_TRT",
    domains=("TRT", "trt"),
    inputs=("box_input", "scores", "anchors?"),
    attributes=_ATTRIBUTES,
    outputs=("num_detections", "detection_boxes", "det_scores", "detection_classes"),
    guard=_guard,
    fields=_fields,
    prologue=_prologue,
    epilogue=_epilogue,
    source="NVIDIA TensorRT OSS, efficientNMSPlugin",
)

EFFICIENT_NMS = (
    _EFFICIENT,
    replace(
        _EFFICIENT,
        op_type="EfficientIdxNMS_TRT",
        outputs=(*_EFFICIENT.outputs, "detection_indices"),
        guard=_index_guard,
        source="TensorRT-YOLO, efficientIdxNMSPlugin",
    ),
    replace(
        _EFFICIENT,
        op_type="EfficientRotatedNMS_TRT",
        inputs=("boxes", "scores"),
        fields=lambda node: {**_fields(node), "prob_iou": 1},
        prologue="",
        source="TensorRT-YOLO, efficientRotatedNMSPlugin",
    ),
)

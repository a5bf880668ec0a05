"""Says how EfficientNMS and its relatives are written: scores by box, thresholds inclusive, rows filled with zeros.

Differences that are meant: no more than 5,000 candidates of an image take part in NVIDIA's, and half precision is computed
in half there; below a score threshold of 0.007 rejected boxes get into spare rows there.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal

LEAST_LOGIT = -32768.0
"""Where NVIDIA puts the threshold of raw scores when every score is to pass."""

_ATTRIBUTES = (
    Attr("score_threshold", Kind.FLOAT),
    Attr("iou_threshold", Kind.FLOAT),
    Attr("max_output_boxes", Kind.INT),
    Attr("background_class", Kind.INT, -1),
    Attr("score_activation", Kind.INT, 0),
    Attr("class_agnostic", Kind.INT, 0),
    Attr("box_coding", Kind.INT, 0),
)

_SHAPES = """
en_zero = Constant <value = int64[1] {0}> ()
en_one = Constant <value = int64[1] {1}> ()
en_two = Constant <value = int64[1] {2}> ()
en_four = Constant <value = int64[1] {4}> ()
en_minus = Constant <value = int64[1] {-1}> ()
en_box_shape = Shape (box_input)
en_pair = Slice (en_box_shape, en_zero, en_two)
en_groups_or_none = Slice (en_box_shape, en_two, en_minus)
en_groups_list = Concat <axis = 0> (en_groups_or_none, en_one)
en_groups = Slice (en_groups_list, en_zero, en_one)
en_boxes_shape = Concat <axis = 0> (en_pair, en_groups, en_four)
en_raw = Reshape (box_input, en_boxes_shape)
en_anchors_shape = Shape (anchors)
en_anchors_pair = Slice (en_anchors_shape, en_zero, en_two)
en_anchor_shape = Concat <axis = 0> (en_anchors_pair, en_one, en_four)
en_anchor = Reshape (anchors, en_anchor_shape)
en_raw_first = Slice (en_raw, en_zero, en_two, en_minus)
en_raw_second = Slice (en_raw, en_two, en_four, en_minus)
en_anchor_first = Slice (en_anchor, en_zero, en_two, en_minus)
en_anchor_second = Slice (en_anchor, en_two, en_four, en_minus)
"""

_CORNERS_DECODED = """
en_raw_low = Min (en_raw_first, en_raw_second)
en_raw_high = Max (en_raw_first, en_raw_second)
en_anchor_low = Min (en_anchor_first, en_anchor_second)
en_anchor_high = Max (en_anchor_first, en_anchor_second)
en_low = Add (en_raw_low, en_anchor_low)
en_high = Add (en_raw_high, en_anchor_high)
boxes = Concat <axis = 3> (en_low, en_high)
"""

_CENTRES_DECODED = """
en_moved = Mul (en_raw_first, en_anchor_second)
en_centre = Add (en_moved, en_anchor_first)
en_scale = Exp (en_raw_second)
en_size = Mul (en_anchor_second, en_scale)
boxes = Concat <axis = 3> (en_centre, en_size)
"""


def _prologue(node: AliasedNode) -> str:
    """Boxes decoded from anchors where there are any: corners add up, sizes are exponents without variances."""
    if "anchors" not in node.present:
        return "boxes = Identity (box_input)"
    return _SHAPES + (_CENTRES_DECODED if node.attrs["box_coding"] else _CORNERS_DECODED)


def _epilogue(node: AliasedNode) -> str:
    """Scores of detections get their sigmoid when they are selected, as in NVIDIA's kernel; other rows stay zero."""
    if not node.attrs["score_activation"]:
        return "det_scores = Identity (detection_scores)"
    rows = node.attrs["max_output_boxes"]
    return f"""
en_first_row = Constant <value = int32 {{0}}> ()
en_rows = Constant <value = int32 {{{rows}}}> ()
en_step = Constant <value = int32 {{1}}> ()
en_row = Range (en_first_row, en_rows, en_step)
en_real = Less (en_row, num_detections)
en_sigmoid = Sigmoid (detection_scores)
en_nothing = Sub (en_sigmoid, en_sigmoid)
det_scores = Where (en_real, en_sigmoid, en_nothing)
"""


def raw_threshold(threshold: float) -> float:
    """The score before the sigmoid that becomes the threshold."""
    if threshold <= 0:
        return LEAST_LOGIT
    if threshold >= 1:
        return float(np.finfo(np.float32).max)
    return math.log(threshold / (1 - threshold))


def _guard(node: AliasedNode) -> Refusal | None:
    for name in ("score_activation", "class_agnostic", "box_coding"):
        if node.attrs[name] not in (0, 1):
            return Refusal(f"{name} = {node.attrs[name]!r}", f"{name}: 0 or 1", f"correct {name!r}")
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


def _rotated_fields(node: AliasedNode) -> Fields:
    return {**_fields(node), "prob_iou": 1}


def _fields(node: AliasedNode) -> Fields:
    attrs = dict(node.attrs)
    threshold = attrs["score_threshold"]
    centres = attrs["box_coding"]
    return {
        "score_threshold": raw_threshold(threshold) if attrs["score_activation"] else threshold,
        "iou_threshold": attrs["iou_threshold"],
        "inclusive": 1,
        "max_output_boxes": attrs["max_output_boxes"],
        "topk": 0,
        "background_class": attrs["background_class"],
        "class_agnostic": attrs["class_agnostic"],
        "box_coding": centres,
        "prob_iou": 0,
        "polygon_iou": 0,
        "pixels": 0,
        "clip": 0,
        "class_major": 0,
        "zero_filler": 1,
    }


EFFICIENT_NMS = (
    Alias(
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
    ),
    Alias(
        op_type="EfficientIdxNMS_TRT",
        domains=("TRT", "trt"),
        inputs=("box_input", "scores", "anchors?"),
        attributes=_ATTRIBUTES,
        outputs=("num_detections", "detection_boxes", "det_scores", "detection_classes", "detection_indices"),
        guard=_index_guard,
        fields=_fields,
        prologue=_prologue,
        epilogue=_epilogue,
        source="TensorRT-YOLO, efficientIdxNMSPlugin",
    ),
    Alias(
        op_type="EfficientRotatedNMS_TRT",
        domains=("TRT", "trt"),
        inputs=("boxes", "scores"),
        attributes=_ATTRIBUTES,
        outputs=("num_detections", "detection_boxes", "det_scores", "detection_classes"),
        guard=_guard,
        fields=_rotated_fields,
        epilogue=_epilogue,
        source="TensorRT-YOLO, efficientRotatedNMSPlugin",
    ),
)

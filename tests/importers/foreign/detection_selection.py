"""Selection of detections, as other tools write it. The oracle computes the overlap of every pair of boxes in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._decoded_boxes import DECODED
from tests.importers.foreign._detections import POLYGONS, made, rows, selected
from tests.importers.foreign.model import Arrays, Example, Inconsistent

SELECTION = "DetectionSelection"


EFFICIENT = {
    "score_threshold": 26.5 / 128,
    "iou_threshold": 0.533,
    "max_output_boxes": 30,
    "background_class": -1,
    "score_activation": 0,
    "class_agnostic": 0,
    "box_coding": 0,
}


def _efficient_inputs(groups: int = 0, coding: int = 0, logits: bool = False, anchors: bool = False) -> Any:
    def make() -> dict[str, np.ndarray | None]:
        boxes, scores = made(groups or 1)
        given = boxes if groups else boxes[:, :, 0]
        if coding:
            low, high = given[..., :2], given[..., 2:]
            given = np.concatenate([(low + high) / 2, high - low], axis=-1)
        third = None
        if anchors:
            third = np.random.default_rng(4).integers(1, 5, (1, 20, 4)).astype(np.float32) / 4
            third[..., 2:] = 0.25 if coding else third[..., :2] + 0.25
            wide = third[:, :, None] if groups else third
            if coding:
                given = np.concatenate(
                    [
                        (given[..., :2] - wide[..., :2]) / wide[..., 2:],
                        np.log(given[..., 2:] / wide[..., 2:]),
                    ],
                    -1,
                )
            else:
                given = given - wide
        scores = np.log((scores + 1 / 256) / (1 - scores)) if logits else scores
        inputs = {"boxes": given.astype(np.float32), "scores": scores.astype(np.float32), "anchors": third}
        return inputs if anchors else {n: a for n, a in inputs.items() if n != "anchors"}

    return make


def _efficient(outputs: int = 4, **changed: Any) -> Any:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        attributes = EFFICIENT | changed
        boxes, scores = inputs["boxes"].astype(np.float64), inputs["scores"].astype(np.float64)
        boxes = boxes if boxes.ndim == 4 else boxes[:, :, None]
        if "anchors" in inputs:
            anchors = inputs["anchors"].astype(np.float64)[:, :, None]
            if attributes["box_coding"]:
                middle = boxes[..., :2] * anchors[..., 2:] + anchors[..., :2]
                boxes = np.concatenate([middle, np.exp(boxes[..., 2:]) * anchors[..., 2:]], axis=-1)
            else:
                boxes = boxes + anchors
        if attributes["box_coding"]:
            middle, half = boxes[..., :2], boxes[..., 2:] / 2
            boxes = np.concatenate([middle - half, middle + half], axis=-1)
        values = 1 / (1 + np.exp(-scores)) if attributes["score_activation"] else scores
        options = {"apart": not attributes["class_agnostic"]}
        if attributes["background_class"] >= 0:
            options["background"] = attributes["background_class"]
        limits = attributes["score_threshold"], attributes["iou_threshold"]
        kept = selected(boxes, values, attributes["max_output_boxes"], *limits, **options)
        return rows(kept, boxes, values, attributes["max_output_boxes"], 0)[:outputs]

    return oracle


def _example(note: str, op_type: str = "EfficientNMS_TRT", **changed: Any) -> Example:
    made_of = {name: changed.pop(name) for name in ("groups", "anchors") if name in changed}
    logits, coding = bool(changed.get("score_activation")), changed.get("box_coding", 0)
    inputs = _efficient_inputs(coding=coding, logits=logits, **made_of)
    outputs = 5 if op_type == "EfficientIdxNMS_TRT" else 4
    oracle = _efficient(outputs, **changed)
    return Example(SELECTION, op_type, "TRT", EFFICIENT | changed, inputs, oracle, note=note)


ROTATED = EFFICIENT | {"iou_threshold": 0.527, "class_agnostic": 1, "box_coding": 1}


def _turned(groups: int = 0, unit: int = 1) -> Any:
    """Centre, size and angle."""

    def make() -> dict[str, np.ndarray | None]:
        boxes, scores = made(groups or 1)
        boxes = unit * (boxes if groups else boxes[:, :, 0])
        low, high = boxes[..., :2], boxes[..., 2:]
        angle = np.random.default_rng(6).integers(-12, 12, (*boxes.shape[:-1], 1)) / 8
        turned = np.concatenate([(low + high) / 2, high - low, angle], -1).astype(np.float32)
        return {"boxes": turned, "scores": scores}

    return make


def _rotated(inputs: Arrays) -> tuple[np.ndarray, ...]:
    boxes = inputs["boxes"].astype(np.float64)[:, :, None]
    middle, half = boxes[..., :2], boxes[..., 2:4] / 2
    boxes = np.concatenate([middle - half, middle + half, boxes[..., 4:]], axis=-1)
    limits = ROTATED["score_threshold"], ROTATED["iou_threshold"]
    kept = selected(boxes, inputs["scores"], 30, *limits, apart=False)
    return rows(kept, boxes, inputs["scores"], 30, 0)[:4]


LIKE_ONNX = {
    "score_threshold": 26.5 / 128,
    "iou_threshold": 0.533,
    "max_output_boxes_per_class": 50,
    "center_point_box": 0,
}


def _like_onnx(**changed: Any) -> Any:
    def oracle(inputs: Arrays) -> np.ndarray:
        attributes = LIKE_ONNX | changed
        most = attributes["max_output_boxes_per_class"]
        limits = attributes["score_threshold"], attributes["iou_threshold"]
        kept = selected(inputs["boxes"][:, :, None], inputs["scores"], most, *limits)
        found = [(image, class_, box) for image, pairs in enumerate(kept) for box, class_ in pairs]
        last = found[-1] if found else (-1, -1, -1)
        return np.array(found + [last] * (len(kept) * most - len(found)))

    return oracle


def _example_like_onnx(note: str, **changed: Any) -> Example:
    inputs, attributes = _efficient_inputs(), LIKE_ONNX | changed
    oracle = _like_onnx(**changed)
    return Example(
        SELECTION, "EfficientNMS_ONNX_TRT", "TRT", attributes, inputs, oracle, note=note, types=("S",)
    )


NVIDIA = {
    "shareLocation": 1,
    "backgroundLabelId": -1,
    "numClasses": 3,
    "topK": 12,
    "keepTopK": 10,
    "scoreThreshold": 26.5 / 128,
    "iouThreshold": 0.533,
    "isNormalized": 1,
    "clipBoxes": 0,
}
MMDEPLOY = {
    "background_label_id": -1,
    "num_classes": 3,
    "topk": -1,
    "keep_topk": 40,
    "score_threshold": 26.5 / 128,
    "iou_threshold": 0.533,
    "is_normalized": 0,
    "clip_boxes": 0,
    "return_index": 1,
}


def _corners(groups: int = 1) -> Any:
    def make() -> dict[str, np.ndarray | None]:
        boxes, scores = made(groups)
        return {"boxes": boxes, "scores": scores}

    return make


def _nvidia(**changed: Any) -> Any:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        attributes = {"clipBoxes": 1} | NVIDIA | changed
        options = {"topk": attributes["topK"], "extra": 1 - attributes["isNormalized"]}
        if attributes["backgroundLabelId"] >= 0:
            options["background"] = attributes["backgroundLabelId"]
        most = attributes["keepTopK"]
        boxes = inputs["boxes"].astype(np.float64)
        limits = attributes["scoreThreshold"], attributes["iouThreshold"]
        kept = selected(boxes, inputs["scores"], most, *limits, **options)
        boxes = np.clip(boxes, 0, 1) if attributes["clipBoxes"] else boxes
        return rows(kept, boxes, inputs["scores"], most, -1)[:4]

    return oracle


def _batched(note: str, op_type: str = "BatchedNMSDynamic_TRT", groups: int = 1, **changed: Any) -> Example:
    attributes, types = NVIDIA | changed, ("S", "T", "T", "T")
    return Example(
        SELECTION, op_type, "TRT", attributes, _corners(groups), _nvidia(**changed), note=note, types=types
    )


def _mmdeploy(extra: int = 0, **changed: Any) -> Any:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        attributes = MMDEPLOY | ({"iou_threshold": 0.3125} if extra else {}) | changed
        most, boxes = attributes["keep_topk"], inputs["boxes"]
        limits = attributes["score_threshold"], attributes["iou_threshold"]
        options = {"topk": attributes["topk"], "extra": extra}
        kept = selected(boxes, inputs["scores"], most, *limits, **options)
        _, corners, scores, classes, index = rows(kept, boxes, inputs["scores"], most, -1)
        if boxes.shape[2] > 1:
            index = np.where(index < 0, -1, classes * boxes.shape[1] + index)
        return np.concatenate([corners, scores[..., None]], axis=-1), classes, index

    return oracle


def _batched_of_mmdeploy(note: str, groups: int = 1, **changed: Any) -> Example:
    attributes, types = MMDEPLOY | changed, ("T", "S", "S")
    inputs, oracle = _corners(groups), _mmdeploy(**changed)
    return Example(SELECTION, "TRTBatchedNMS", "mmdeploy", attributes, inputs, oracle, note=note, types=types)


def _batched_rotated(
    note: str, op_type: str = "TRTBatchedRotatedNMS", groups: int = 1, **changed: Any
) -> Example:
    attributes, oracle = MMDEPLOY | {"iou_threshold": 0.3125} | changed, _mmdeploy(extra=POLYGONS, **changed)
    types = ("T", "S", "S")
    return Example(
        SELECTION, op_type, "mmdeploy", attributes, _turned(groups), oracle, note=note, types=types
    )


FIELDS = {
    "score_threshold": 26.5 / 128,
    "iou_threshold": 0.533,
    "inclusive": 0,
    "max_output_boxes": 30,
    "topk": 4,
    "background_class": 1,
    "class_agnostic": 1,
    "box_coding": 0,
    "prob_iou": 0,
    "polygon_iou": 0,
    "pixels": 0,
    "clip": 0,
    "class_major": 0,
    "zero_filler": 0,
}


def _own(inputs: Arrays) -> tuple[np.ndarray, ...]:
    options = {"topk": 4, "background": 1, "apart": False}
    kept = selected(
        inputs["boxes"], inputs["scores"], 30, FIELDS["score_threshold"], FIELDS["iou_threshold"], **options
    )
    return rows(kept, inputs["boxes"], inputs["scores"], 30, -1)


IN_PIXELS = _turned(unit=32)
"""In smaller units ProbIoU is near 0."""

EXAMPLES = (
    _example(""),
    _example("box_for_each_class", groups=3, background_class=2),
    _example("centres", box_coding=1, class_agnostic=1),
    _example("activation", score_activation=1),
    _example("anchors", anchors=True),
    _example("anchors_of_centres", anchors=True, box_coding=1, groups=3),
    _example("", "EfficientIdxNMS_TRT"),
    _example("activation", "EfficientIdxNMS_TRT", score_activation=1, max_output_boxes=5),
    Example(SELECTION, "EfficientRotatedNMS_TRT", "TRT", ROTATED, IN_PIXELS, _rotated),
    _example_like_onnx(""),
    _example_like_onnx("full", max_output_boxes_per_class=4),
    _example_like_onnx("nothing", score_threshold=1.5),
    _batched("", topK=4),
    _batched("background", backgroundLabelId=0, keepTopK=30, topK=30, clipBoxes=1),
    _batched("box_for_each_class", groups=3, shareLocation=0),
    _batched("pixels", isNormalized=0, iouThreshold=0.7301),
    _batched("", "BatchedNMS_TRT"),
    _batched_of_mmdeploy(""),
    _batched_of_mmdeploy("box_for_each_class", groups=3, topk=5),
    _batched_rotated(""),
    _batched_rotated("box_for_each_class", groups=3, topk=5, return_index=0),
    _batched_rotated("", "TRTBatchedBEVNMS", return_index=1),
    *DECODED,
    Example(SELECTION, SELECTION, "trtsmith", FIELDS, _corners(3), _own),
)

SHAPES = {"boxes": (2, 7, 4), "scores": (2, 7, 3)}
INCONSISTENT = tuple(
    Inconsistent(SELECTION, SHAPES, change, message, FIELDS)
    for change, message in (
        ({"boxes": (2, 7)}, "boxes have 2 dimensions, not 3 or 4"),
        ({"boxes": (2, 7, 5)}, "boxes[2] = 5, but a box has 4 numbers"),
        ({"boxes": (2, 7, 1, 3)}, "boxes[3] = 3"),
        ({"scores": (2, 7)}, "scores have 2 dimensions, not 3 or 4"),
        ({"scores": (2, 7, 3, 2)}, "scores[3] = 2, not 1"),
        ({"boxes": (1, 7, 4)}, "boxes[0] = 1, not 2 = scores[0]"),
        ({"boxes": (2, 8, 4)}, "boxes[1] = 8, not 7 = scores[1]"),
        ({"boxes": (2, 7, 2, 4)}, "boxes[2] = 2, neither 1 nor 3 = scores[2]"),
    )
)
INCONSISTENT += (
    Inconsistent(
        SELECTION, SHAPES, {}, "boxes[2] = 4, but a box has 5 numbers", FIELDS, wrong_fields={"prob_iou": 1}
    ),
    Inconsistent(
        SELECTION,
        SHAPES,
        {"boxes": (2, 7, 5)},
        "clip = 1 with polygon_iou = 1",
        FIELDS,
        wrong_fields={"polygon_iou": 1, "clip": 1},
    ),
)


HUGE = "an image has fewer than 2^31 scores, and the images of a batch are apart"

"""Detections of SSD and proposals of Faster R-CNN, with the kernels' arithmetic, box by box, as the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._detections import made, rows, selected
from tests.importers.foreign.model import Arrays, Example

SELECTION = "DetectionSelection"

NMS = {
    "shareLocation": 1,
    "varianceEncodedInTarget": 0,
    "backgroundLabelId": 0,
    "numClasses": 3,
    "topK": 12,
    "keepTopK": 10,
    "confidenceThreshold": 26.5 / 128,
    "nmsThreshold": 0.533,
    "inputOrder": [0, 2, 1],
    "confSigmoid": 0,
    "isNormalized": 1,
    "codeType": 3,
    "scoreBits": 16,
}
_ORDER = ("loc", "conf", "prior")


def _priors(same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Corners and variances [2, 20, 4]; those of both images are the same, or not."""
    rng = np.random.default_rng(8)
    low = rng.integers(0, 3, (2, 20, 2)) / 8
    corners = np.concatenate([low, low + 0.25 * rng.integers(1, 3, (2, 20, 2))], -1)
    corners[1] = corners[0] if same else corners[1]
    return corners, np.broadcast_to([0.5, 0.25, 1, 0.5], corners.shape)


def _encoded(attributes: dict[str, Any], same: bool) -> Any:
    """What gives the boxes of `made`, in the unit square, by the node's code."""
    code, groups = attributes["codeType"], 1 if attributes["shareLocation"] else 3

    def make() -> dict[str, np.ndarray | None]:
        boxes, scores = made(groups)
        boxes = boxes / 4
        corners, variances = (array[:, :, None] for array in _priors(same))
        size = np.tile(corners[..., 2:] - corners[..., :2], 2)
        if code in (0, 2):
            moved = (boxes - corners) / (size if code == 2 else 1)
        else:
            middle = (boxes[..., :2] + boxes[..., 2:] - corners[..., :2] - corners[..., 2:]) / 2
            sides = boxes[..., 2:] - boxes[..., :2]
            moved = np.concatenate([middle / size[..., :2], np.log(sides / size[..., 2:])], -1)
        if code == 3 or not attributes["varianceEncodedInTarget"]:
            moved = moved / variances
        moved = moved[..., [1, 0, 3, 2]] if code == 3 else moved
        if attributes["confSigmoid"]:
            scores = np.log((scores + 1 / 256) / (1 - scores))
        given = {
            "loc": moved.reshape(2, -1, 1, 1),
            "conf": scores.reshape(2, -1, 1, 1),
            "prior": np.stack([corners, np.broadcast_to(variances, corners.shape)], 1).reshape(2, 2, -1, 1),
        }
        order = np.argsort(attributes["inputOrder"])
        return {
            port: given[_ORDER[place]].astype(np.float32)
            for port, place in zip(("first", "second", "third"), order, strict=True)
        }

    return make


def _detected(attributes: dict[str, Any]) -> Any:
    def oracle(inputs: Arrays) -> tuple[np.ndarray, ...]:
        given = list(inputs.values())
        loc, conf, prior = (given[place].astype(np.float64) for place in attributes["inputOrder"])
        groups = 1 if attributes["shareLocation"] else 3
        loc, scores = loc.reshape(2, 20, groups, 4), conf.reshape(2, 20, 3)
        if attributes["confSigmoid"]:
            scores = 1 / (1 + np.exp(-scores))
        tables = prior.reshape(2, 2, 20, 4)
        boxes = np.empty_like(loc)
        for n, r, c in np.ndindex(*loc.shape[:3]):
            anchor, variance = tables[0 if attributes.get("isBatchAgnostic") else n, :, r]
            move, code = loc[n, r, c], attributes["codeType"]
            width, height = anchor[2] - anchor[0], anchor[3] - anchor[1]
            move = move[[1, 0, 3, 2]] if code == 3 else move
            if code == 3 or not attributes["varianceEncodedInTarget"]:
                move = move * variance
            if code == 0:
                boxes[n, r, c] = anchor + move
            elif code == 2:
                boxes[n, r, c] = anchor + move * [width, height, width, height]
            else:
                x, y = (
                    (anchor[0] + anchor[2]) / 2 + move[0] * width,
                    (anchor[1] + anchor[3]) / 2 + move[1] * height,
                )
                across, down = np.exp(move[2]) * width / 2, np.exp(move[3]) * height / 2
                boxes[n, r, c] = [x - across, y - down, x + across, y + down]
        most, options = (
            attributes["keepTopK"],
            {"topk": attributes["topK"], "extra": 1 - attributes["isNormalized"]},
        )
        if attributes["backgroundLabelId"] >= 0:
            options["background"] = attributes["backgroundLabelId"]
        limits = attributes["confidenceThreshold"], attributes["nmsThreshold"]
        kept = selected(boxes, scores, most, *limits, **options)
        count, corners, best, classes, _ = rows(kept, np.clip(boxes, 0, 1), scores, most, -1)
        image = np.broadcast_to(np.arange(2)[:, None], best.shape)
        columns = [image[..., None], classes[..., None], best[..., None], corners]
        return np.concatenate(columns, -1)[:, None], count[:, :, None, None]

    return oracle


def _ssd(note: str, op_type: str = "NMSDynamic_TRT", same: bool = False, **changed: Any) -> Example:
    attributes = NMS | changed
    return Example(
        SELECTION,
        op_type,
        "TRT",
        attributes,
        _encoded(attributes, same),
        _detected(attributes),
        note=note,
        types=("T", "F"),
    )


PROPOSAL = {
    "input_height": 33,
    "input_width": 49,
    "rpn_stride": 8,
    "roi_min_size": 4.5,
    "nms_iou_threshold": 0.5,
    "pre_nms_top_n": 40,
    "post_nms_top_n": 12,
    "anchor_sizes": [8.0, 16.0],
    "anchor_ratios": [0.25, 4.0],
}


def _regressed() -> dict[str, np.ndarray | None]:
    """Two images of 4 anchors in 4 by 6 cells; moves that half precision has, scores apart from each other."""
    rng = np.random.default_rng(11)
    scores = rng.permuted(np.arange(2 * 4 * 24)).reshape(2, 4, 4, 6) / 512
    deltas = rng.integers(-4, 5, (2, 16, 4, 6)) / 8
    return {"probabilities": scores.astype(np.float32), "deltas": deltas.astype(np.float32)}


def _proposed(**changed: Any) -> Any:
    def oracle(inputs: Arrays) -> np.ndarray:
        attributes = PROPOSAL | changed
        height, width = attributes["input_height"], attributes["input_width"]
        anchors = [
            (s * r**0.5, s / r**0.5) for s in attributes["anchor_sizes"] for r in attributes["anchor_ratios"]
        ]
        result = np.zeros((2, attributes["post_nms_top_n"], 4, 1))
        for n in range(2):
            found = []
            for a, h, w in np.ndindex(4, 4, 6):
                x, y, across, down = inputs["deltas"][n, 4 * a : 4 * a + 4, h, w].astype(np.float64)
                x = (w + 0.5) * attributes["rpn_stride"] + anchors[a][0] * x
                y = (h + 0.5) * attributes["rpn_stride"] + anchors[a][1] * y
                across, down = np.exp(across) * anchors[a][0] / 2, np.exp(down) * anchors[a][1] / 2
                box = np.clip([x - across, y - down, x + across, y + down], 0, [width - 1, height - 1] * 2)
                small = min(box[2] - box[0], box[3] - box[1]) <= attributes["roi_min_size"]
                found.append((-np.inf if small else inputs["probabilities"][n, a, h, w], box))
            kept: list[np.ndarray] = []
            for _, box in sorted(found, key=lambda pair: -pair[0])[: attributes["pre_nms_top_n"]]:
                sides = [np.minimum(box[2:], b[2:]) - np.maximum(box[:2], b[:2]) + 1 for b in kept]
                areas = [(box[2:] - box[:2] + 1).prod() + (b[2:] - b[:2] + 1).prod() for b in kept]
                common = [np.maximum(side, 0).prod() for side in sides]
                shares = [c / (area - c) for c, area in zip(common, areas, strict=True)]
                if all(share <= attributes["nms_iou_threshold"] for share in shares):
                    kept.append(box)
            for row, box in enumerate(kept[: attributes["post_nms_top_n"]]):
                result[n, row, :, 0] = box[[1, 0, 3, 2]] / [height - 1, width - 1, height - 1, width - 1]
        return result

    return oracle


def _proposals(note: str, op_type: str = "ProposalDynamic", **changed: Any) -> Example:
    return Example(
        SELECTION,
        op_type,
        "TRT",
        PROPOSAL | changed,
        _regressed,
        _proposed(**changed),
        note=note,
        types=("T",),
    )


DECODED = (
    _ssd("tensorflow"),
    _ssd("corners", codeType=0, varianceEncodedInTarget=1, backgroundLabelId=-1, keepTopK=12),
    _ssd(
        "centres_of_each_class", codeType=1, shareLocation=0, varianceEncodedInTarget=1, inputOrder=[1, 2, 0]
    ),
    _ssd("sizes_of_corners", codeType=2, confSigmoid=1, inputOrder=[0, 1, 2]),
    _ssd("one_image_without_any", codeType=0, confidenceThreshold=118.5 / 128, backgroundLabelId=-1),
    _ssd("pixels", codeType=0, isNormalized=0, nmsThreshold=0.7301),
    _ssd("", "NMS_TRT", isBatchAgnostic=0),
    _ssd("priors_of_the_first_image", "NMS_TRT", same=True, isBatchAgnostic=1),
    _proposals(""),
    _proposals("small_ones_last", pre_nms_top_n=96, post_nms_top_n=60),
    _proposals("", "Proposal", nms_iou_threshold=0.3),
)

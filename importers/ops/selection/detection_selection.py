"""Selects the detections of every image, a fixed number of rows: the non-maximum suppression plugins of TensorRT."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Field, Fields, Kind, OpDef, Port, Shapes
from trtsmith.importers.ops._shared import flag, size_faults
from trtsmith.importers.ops.selection._detection_selection_aliases import ALIASES
from trtsmith.importers.ops.selection._detection_selection_cases import BENCHMARKS, CASES, work
from trtsmith.importers.ops.selection._detection_selection_onnx import expand
from trtsmith.importers.ops.selection._detection_selection_torch import torch_reference
from trtsmith.importers.ops.selection._rotated_share import LEAST_SHARE
from trtsmith.importers.ops.selection._rotated_share import shares as rotated_shares


def _columns(fields: Fields) -> int:
    """Numbers of a box."""
    return 5 if fields["prob_iou"] or fields["polygon_iou"] else 4


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, most = shapes["scores"][0], fields["max_output_boxes"]
    return {
        "num_detections": (batch, 1),
        "detection_boxes": (batch, most, _columns(fields)),
        "detection_scores": (batch, most),
        "detection_classes": (batch, most),
        "detection_indices": (batch, most),
    }


def _check(fields: Fields, shapes: Any) -> list[str]:
    boxes, scores = shapes.get("boxes"), shapes.get("scores")
    for name, shape in (("boxes", boxes), ("scores", scores)):
        if shape is not None and len(shape) not in (3, 4):
            return [f"{name} have {len(shape)} dimensions, not 3 or 4"]
    others = ("prob_iou", "box_coding", "pixels", "clip")
    faults = [f"{n} = 1 with polygon_iou = 1" for n in others if fields["polygon_iou"] and fields[n]]
    if boxes is not None:
        columns = _columns(fields)
        if boxes[-1] not in (columns, None):
            faults.append(f"boxes[{len(boxes) - 1}] = {boxes[-1]}, but a box has {columns} numbers")
    if scores is not None and len(scores) == 4:
        faults += size_faults(shapes, ("scores", 3, 1))
    if boxes is not None and scores is not None:
        faults += size_faults(shapes, *(("boxes", axis, scores[axis], f"scores[{axis}]") for axis in (0, 1)))
        if len(boxes) == 4 and None not in (boxes[2], scores[2]) and boxes[2] not in (1, scores[2]):
            faults.append(f"boxes[2] = {boxes[2]}, neither 1 nor {scores[2]} = scores[2]")
    return faults


def _reached(value: Any, threshold: float, inclusive: bool) -> Any:
    """Whether a value is above a threshold, in float32; a NaN never is."""
    limit = np.float32(threshold)
    return value >= limit if inclusive else value > limit


def _corners(fields: Fields, boxes: np.ndarray) -> np.ndarray:
    """Two opposite corners, in any order, and an angle if there is one; in float32: kernels decide in that."""
    boxes = boxes.astype(np.float32)
    if not fields["box_coding"]:
        return boxes
    half = boxes[..., 2:4] * np.float32(0.5)
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half, boxes[..., 4:]], axis=-1)


def _shares(box: np.ndarray, others: np.ndarray, extra: int) -> np.ndarray:
    """Intersection over union of one box with others [n, 4]; 0 for boxes that do not touch or have no area.

    A NaN where an area is none: of a corner that is no number, or of a box without an end that has no width.
    """
    low, high = np.minimum(others[:, :2], others[:, 2:]), np.maximum(others[:, :2], others[:, 2:])
    own_low, own_high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    one = np.float32(extra)
    sides = np.minimum(high, own_high) - np.maximum(low, own_low)
    common = (sides + one).prod(axis=1)
    both = (high - low + one).prod(axis=1) + (own_high - own_low + one).prod()
    either = both - common
    nothing = (sides < 0).any(axis=1) | (common <= 0) | (either <= 0)
    shares: np.ndarray = np.divide(common, either, out=np.zeros_like(common), where=~nothing)
    shares[np.isnan(both)] = np.nan
    return shares


def _distribution(boxes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rotated boxes [..., 5] as normal distributions: centres (x, y), and a, b and c of their covariances."""
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:4]), np.maximum(boxes[..., :2], boxes[..., 2:4])
    size = high - low
    centre, variance = low + np.float32(0.5) * size, size * size / np.float32(12)
    sine, cosine = np.sin(boxes[..., 4]), np.cos(boxes[..., 4])
    a = variance[..., 1] * cosine**2 + variance[..., 0] * sine**2
    b = variance[..., 1] * sine**2 + variance[..., 0] * cosine**2
    return centre[..., 0], centre[..., 1], a, b, (variance[..., 1] - variance[..., 0]) * cosine * sine


@np.errstate(divide="ignore")
def _likenesses(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """ProbIoU (Llerena et al., arXiv 2106.06072) as TensorRT-YOLO computes it, which models were tuned with.

    It has half of the mixed term, no square root in the logarithm, and divides that by the determinant, too: up to 0.44
    away from the paper's.
    """
    (x0, y0, a0, b0, c0), (x1, y1, a1, b1, c1) = _distribution(box), _distribution(others)
    x, y, a, b, c = x0 - x1, y0 - y1, a0 + a1, b0 + b1, c0 + c1
    determinant = np.fmax(a * b - c * c, np.float32(1e-7))
    own = np.fmax(a0 * b0 - c0 * c0, 0) * np.fmax(a1 * b1 - c1 * c1, 0)
    distance = (a * x**2 + b * y**2 + c * x * y) / (4 * determinant)
    distance += np.log(determinant / (4 * own)) / (2 * determinant)
    shares: np.ndarray = 1 - np.sqrt(1 - np.exp(-np.fmax(np.fmin(distance, 100), np.float32(1e-7))))
    return shares


def _candidates(fields: Fields, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and classes of an image's candidates, the best first, from its scores [boxes, classes]."""
    wanted = _reached(scores, fields["score_threshold"], fields["inclusive"])
    if 0 <= fields["background_class"] < scores.shape[1]:
        wanted[:, fields["background_class"]] = False
    if fields["topk"] > 0:
        for class_, column in enumerate(scores.T):
            boxes = np.flatnonzero(wanted[:, class_])
            wanted[boxes[np.argsort(-column[boxes], kind="stable")][fields["topk"] :], class_] = False
    if fields["class_major"]:
        classes, boxes = np.nonzero(wanted.T)
    else:
        boxes, classes = np.nonzero(wanted)
    order = np.argsort(-scores[boxes, classes], kind="stable")
    return boxes[order], classes[order]


@np.errstate(invalid="ignore", over="ignore")
def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One candidate after the other, best first: it stays if it overlaps none that stays. All decisions in float32."""
    boxes, scores = inputs["boxes"], inputs["scores"]
    scores = scores[..., 0] if scores.ndim == 4 else scores
    batch, count, classes = (int(size) for size in scores.shape)
    groups = boxes[:, :, None] if boxes.ndim == 3 else boxes
    most, filler = fields["max_output_boxes"], fields["zero_filler"] - 1
    columns = _columns(fields)
    corners = np.broadcast_to(_corners(fields, groups), (batch, count, classes, columns))
    number = np.zeros((batch, 1), np.int32)
    rows = np.zeros((batch, most, columns), np.float32)
    best = np.zeros((batch, most), scores.dtype)
    labels = np.full((batch, most), filler, np.int32)
    indices = np.full((batch, most), filler, np.int32)
    for image in range(batch):
        kept: list[tuple[int, int]] = []
        for box, class_ in zip(*_candidates(fields, scores[image].astype(np.float32)), strict=True):
            if len(kept) == most:
                break
            rivals = [k for k in kept if fields["class_agnostic"] or k[1] == class_]
            others = corners[image][tuple(np.array(rivals, np.int64).reshape(-1, 2).T)]
            own = corners[image, box, class_]
            if fields["polygon_iou"]:
                found = [rotated_shares(other, own[None])[0] for other in others]
                shares = np.array([share if share > LEAST_SHARE else 0.0 for share in found])
            elif fields["prob_iou"]:
                shares = _likenesses(own, others)
            else:
                shares = _shares(own, others, fields["pixels"])
            if not _reached(shares, fields["iou_threshold"], fields["inclusive"]).any():
                kept.append((box, class_))
        number[image] = len(kept)
        for row, (box, class_) in enumerate(kept):
            rows[image, row] = corners[image, box, class_]
            best[image, row] = scores[image, box, class_]
            labels[image, row], indices[image, row] = class_, box
    if fields["clip"]:
        rows[..., :4] = np.clip(rows[..., :4], np.float32(0), np.float32(1))
    return {
        "num_detections": number,
        "detection_boxes": rows.astype(boxes.dtype),
        "detection_scores": best,
        "detection_classes": labels,
        "detection_indices": indices,
    }


DETECTION_SELECTION = OpDef(
    name="DetectionSelection",
    selects="detections",
    doc=(
        "Non-maximum suppression for each image, with a fixed number of output rows, sorted by score. The number of "
        "candidates is not limited; of two equal scores the first wins. Scores and overlaps are compared in float32."
    ),
    inputs=(
        Port(
            "boxes",
            "T",
            None,
            "[N, B, 4], or [N, B, C, 4]: one for each class; or [N, B, 1, 4]; with prob_iou or polygon_iou of 5",
        ),
        Port("scores", "T", None, "[N, B, C], or [N, B, C, 1]; a NaN is the score of no candidate"),
    ),
    outputs=(
        Port("num_detections", "S", 2, "[N, 1]: rows that hold a detection"),
        Port(
            "detection_boxes",
            "T",
            3,
            "[N, K, 4 or 5]: two opposite corners, and the angle; rotated boxes as given; zeros in other rows",
        ),
        Port("detection_scores", "T", 2, "[N, K]; zeros in other rows"),
        Port("detection_classes", "S", 2, "[N, K]; -1 or 0 in other rows"),
        Port("detection_indices", "S", 2, "[N, K]: which of the B boxes; -1 or 0 in other rows"),
    ),
    fields=(
        Field("score_threshold", Kind.FLOAT, "a candidate's score is above", default=0.25),
        Field(
            "iou_threshold", Kind.FLOAT, "intersection over union above which two boxes overlap", default=0.5
        ),
        flag("inclusive", "1: equal to a threshold is above it"),
        Field("max_output_boxes", Kind.INT, "K: rows of each image", default=100, minimum=1),
        Field("topk", Kind.INT, "candidates of each class, at most; 0 or less: all", default=0),
        Field("background_class", Kind.INT, "a class without candidates; -1: none", default=-1),
        flag("class_agnostic", "1: boxes of different classes overlap, too"),
        flag("box_coding", "0: two opposite corners; 1: centre and size"),
        flag(
            "prob_iou",
            "1: boxes have an angle, in radians, as a fifth number, and overlap by TensorRT-YOLO's ProbIoU",
        ),
        flag(
            "polygon_iou",
            "1: boxes are centre x and y, width, height and angle in radians from x towards y, also in the results, "
            "and overlap by the intersection over union of polygons, as RotatedBoxSelection says",
        ),
        flag("pixels", "1: boxes reach to the end of their last pixel, so that sides are larger by 1"),
        flag("clip", "1: coordinates of outputs are limited to 0 and 1"),
        flag("class_major", "of equal scores the first is that of the lower 0: box, 1: class"),
        flag("zero_filler", "class and index of rows without a detection are 0: -1, 1: 0"),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=torch_reference,
    expand=expand,
    aliases=ALIASES,
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=work,
    workspace=True,
)

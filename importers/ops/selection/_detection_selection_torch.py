"""Selects detections in PyTorch: takes the best remaining candidate, then drops those that it overlaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trtsmith.importers.opdef import Fields
from trtsmith.importers.ops.selection._rotated_share import LEAST_SHARE, torch_shares


def torch_reference(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    """Selects detections; all decisions are made in float32, whatever the inputs' dtype."""
    import torch

    boxes, scores = inputs["boxes"], inputs["scores"]
    scores = scores[..., 0] if scores.dim() == 4 else scores
    grouped = boxes.unsqueeze(2) if boxes.dim() == 3 else boxes
    batch, most, filler = scores.shape[0], fields["max_output_boxes"], fields["zero_filler"] - 1
    number = scores.new_zeros((batch, 1), dtype=torch.int32)
    rows = boxes.new_zeros((batch, most, boxes.shape[-1]))
    best = scores.new_zeros((batch, most))
    labels = torch.full_like(best, filler, dtype=torch.int32)
    indices = torch.full_like(best, filler, dtype=torch.int32)
    for image in range(batch):
        box, label = _candidates(fields, scores[image].float())
        group = label if grouped.shape[2] > 1 else torch.zeros_like(label)
        corners = _corners(fields, grouped[image, box, group].float())
        kept = _kept(fields, corners, label)
        count, box, label = len(kept), box[kept], label[kept]
        number[image] = count
        chosen = corners[kept]
        if fields["clip"]:
            chosen[:, :4] = chosen[:, :4].clamp(0, 1)
        rows[image, :count] = chosen.to(boxes.dtype)
        best[image, :count] = scores[image, box, label]
        labels[image, :count] = label.to(torch.int32)
        indices[image, :count] = box.to(torch.int32)
    return number, rows, best, labels, indices


def _above(value: Any, threshold: float, inclusive: bool) -> Any:
    limit = value.new_tensor(threshold)
    return value >= limit if inclusive else value > limit


def _candidates(fields: Fields, scores: Any) -> tuple[Any, Any]:
    """Boxes and classes of an image's candidates, the best first."""
    wanted = _above(scores, fields["score_threshold"], fields["inclusive"])
    if 0 <= fields["background_class"] < scores.shape[1]:
        wanted[:, fields["background_class"]] = False
    if fields["topk"] > 0:
        order = scores.masked_fill(~wanted, float("-inf")).argsort(dim=0, descending=True, stable=True)
        wanted &= order.argsort(dim=0) < fields["topk"]
    if fields["class_major"]:
        label, box = wanted.t().nonzero(as_tuple=True)
    else:
        box, label = wanted.nonzero(as_tuple=True)
    order = scores[box, label].argsort(descending=True, stable=True)
    return box[order], label[order]


def _corners(fields: Fields, boxes: Any) -> Any:
    if not fields["box_coding"]:
        return boxes
    import torch

    half = boxes[:, 2:4] * 0.5
    return torch.cat([boxes[:, :2] - half, boxes[:, :2] + half, boxes[:, 4:]], dim=1)


def _kept(fields: Fields, corners: Any, label: Any) -> Any:
    """Which candidates are kept, in their order."""
    import torch

    if fields["polygon_iou"]:
        shares_of = _polygons(corners)
    elif fields["prob_iou"]:
        shares_of = _likenesses(corners)
    else:
        shares_of = _shares(corners, fields["pixels"])
    left = torch.arange(len(corners), device=corners.device)
    kept: list[Any] = []
    while len(left) and len(kept) < fields["max_output_boxes"]:
        first, left = left[:1], left[1:]
        kept.append(first)
        over = _above(shares_of(first, left), fields["iou_threshold"], fields["inclusive"])
        if not fields["class_agnostic"]:
            over &= label[left] == label[first]
        left = left[~over]
    return torch.cat(kept) if kept else left


def _shares(corners: Any, extra: int) -> Callable[[Any, Any], Any]:
    """Intersection over union of one with others; a NaN where an area is none."""
    import torch

    low = torch.minimum(corners[:, :2], corners[:, 2:])
    high = torch.maximum(corners[:, :2], corners[:, 2:])
    sides = high - low + extra
    area = sides[:, 0] * sides[:, 1]

    def shares(first: Any, others: Any) -> Any:
        sides = torch.minimum(high[others], high[first]) - torch.maximum(low[others], low[first])
        common = (sides[:, 0] + extra) * (sides[:, 1] + extra)
        both = area[others] + area[first]
        either = both - common
        nothing = (sides < 0).any(dim=1) | (common <= 0) | (either <= 0)
        found = torch.where(nothing, torch.zeros_like(common), common / either)
        return found.masked_fill(both.isnan(), float("nan"))

    return shares


def _polygons(boxes: Any) -> Callable[[Any, Any], Any]:
    """Intersection over union of rotated boxes."""

    def shares(first: Any, others: Any) -> Any:
        found = torch_shares(boxes[first], boxes[others])
        return found.masked_fill(found <= LEAST_SHARE, 0.0)

    return shares


def _likenesses(boxes: Any) -> Callable[[Any, Any], Any]:
    """ProbIoU of one with others, as TensorRT-YOLO computes it."""
    import torch

    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:4]), torch.maximum(boxes[:, :2], boxes[:, 2:4])
    size = high - low
    x, y = (low + 0.5 * size).unbind(1)
    across, along = (size * size / 12).unbind(1)
    sine, cosine = boxes[:, 4].sin(), boxes[:, 4].cos()
    a, b = along * cosine**2 + across * sine**2, along * sine**2 + across * cosine**2
    c = (along - across) * cosine * sine
    own = (a * b - c * c).clamp(min=0)

    def shares(first: Any, others: Any) -> Any:
        p, q, r = a[first] + a[others], b[first] + b[others], c[first] + c[others]
        u, v = x[first] - x[others], y[first] - y[others]
        determinant = (p * q - r * r).clamp(min=1e-7)
        distance = (p * u**2 + q * v**2 + r * u * v) / (4 * determinant)
        distance += (determinant / (4 * own[first] * own[others])).log() / (2 * determinant)
        return 1 - (1 - (-distance.clamp(1e-7, 100)).exp()).sqrt()

    return shares

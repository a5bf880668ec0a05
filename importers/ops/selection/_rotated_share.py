"""Computes the intersection over union of rotated boxes (x, y, width, height, angle) in float64, in numpy and in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST_AREA = 1e-14
"""mmcv's (ops/csrc/common/box_iou_rotated_utils.hpp): smaller boxes overlap nothing."""

LEAST_SHARE = 1e-6
"""Boxes that share no more than this touch: it is what float32 makes of nothing."""


def has_area(boxes: np.ndarray) -> np.ndarray:
    """Tells which boxes [n, 5] can overlap anything: large enough in float32, and all numbers finite."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        areas = boxes[:, 2].astype(np.float32) * boxes[:, 3].astype(np.float32)
        found: np.ndarray = (
            np.isfinite(boxes).all(axis=1) & np.isfinite(areas) & (areas >= np.float32(LEAST_AREA))
        )
    return found


def _corners(boxes: np.ndarray, turn: float) -> np.ndarray:
    """[n, 4, 2], in turn around each box."""
    sine, cosine = np.sin(turn * boxes[:, 4]), np.cos(turn * boxes[:, 4])
    along = boxes[:, 2:3] / 2 * np.stack([cosine, sine], axis=1)
    across = boxes[:, 3:4] / 2 * np.stack([-sine, cosine], axis=1)
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.stack([boxes[:, :2] + a * along + b * across for a, b in signs], axis=1)


def _inside(points: np.ndarray, boxes: np.ndarray, turn: float) -> np.ndarray:
    """Whether points [n, 4, 2] are in boxes [n, 5], or on an edge."""
    apart = points - boxes[:, None, :2]
    sine, cosine = np.sin(turn * boxes[:, 4:]), np.cos(turn * boxes[:, 4:])
    x = apart[..., 0] * cosine + apart[..., 1] * sine
    y = apart[..., 1] * cosine - apart[..., 0] * sine
    half = np.abs(boxes[:, 2:4]) / 2 * (1 + 1e-12)
    found: np.ndarray = (np.abs(x) <= half[:, :1]) & (np.abs(y) <= half[:, 1:])
    return found


def _crossings(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the edges of polygons [n, 4, 2] cross: points [n, 16, 2], and whether they do."""
    start, edge = a[:, :, None], (np.roll(a, -1, axis=1) - a)[:, :, None]
    other, rim = b[:, None], (np.roll(b, -1, axis=1) - b)[:, None]
    cross = edge[..., 0] * rim[..., 1] - edge[..., 1] * rim[..., 0]
    apart = other - start
    safe = np.where(cross == 0, 1.0, cross)
    t = (apart[..., 0] * rim[..., 1] - apart[..., 1] * rim[..., 0]) / safe
    u = (apart[..., 0] * edge[..., 1] - apart[..., 1] * edge[..., 0]) / safe
    there = (cross != 0) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = start + t[..., None] * edge
    return points.reshape(len(a), 16, 2), there.reshape(len(a), 16)


def shares(box: np.ndarray, others: np.ndarray, turn: float = 1.0) -> np.ndarray:
    """Computes the overlap of one box [5] with others [n, 5]: 0 where they share nothing, or one has no area.

    The corners of what they have in common are the corners of each in the other and the crossings of edges; in their
    order around their mean, they give its area. turn: 1 for angles from x towards y, -1 for the other way.
    """
    result = np.zeros(len(others))
    own = np.broadcast_to(box, others.shape)
    reach = np.hypot(*box[2:4]) + np.hypot(others[:, 2], others[:, 3])
    with np.errstate(invalid="ignore", over="ignore"):
        near = 2 * np.hypot(*(others[:, :2] - box[:2]).T) <= reach * 1.001
    real = np.flatnonzero(near & has_area(own) & has_area(others))
    if not len(real):
        return result
    a, b = own[real].astype(np.float64), others[real].astype(np.float64)
    b[:, :2] -= a[:, :2]
    a[:, :2] = 0.0
    corners = _corners(a, turn), _corners(b, turn)
    crossings, there = _crossings(*corners)
    points = np.concatenate([*corners, crossings], axis=1)
    valid = np.concatenate([_inside(corners[0], b, turn), _inside(corners[1], a, turn), there], axis=1)
    count = valid.sum(axis=1)
    middle = (points * valid[..., None]).sum(axis=1) / np.maximum(count, 1)[:, None]
    spokes = np.where(valid[..., None], points - middle[:, None], 0.0)
    angles = np.where(valid, np.arctan2(spokes[..., 1], spokes[..., 0]), np.inf)
    order = np.argsort(angles, axis=1)
    ring = np.take_along_axis(spokes, order[..., None], axis=1)
    after = np.where((np.arange(24) + 1 < count[:, None])[..., None], np.roll(ring, -1, axis=1), ring[:, :1])
    common = np.maximum((ring[..., 0] * after[..., 1] - ring[..., 1] * after[..., 0]).sum(axis=1) / 2, 0.0)
    area = a[:, 2] * a[:, 3] + b[:, 2] * b[:, 3]
    result[real] = np.where(count > 2, common / (area - common), 0.0)
    return result


def torch_shares(first: Any, others: Any, turn: float = 1.0) -> Any:
    """Computes the same of one box [1, 5] with others [n, 5], as PyTorch tensors.

    Between two neighbours of all the x at which corners lie or edges cross, the height that the boxes have in common is
    linear: its value in the middle, times the width.
    """
    import torch

    if not len(others):
        return others.new_zeros(0, dtype=torch.float64)
    a, b = first.double().expand(len(others), 5).clone(), others.double().clone()
    sound = torch.ones(len(b), dtype=torch.bool, device=b.device)
    for given, boxes in ((first.float().expand(len(b), 5), a), (others.float(), b)):
        area = given[:, 2] * given[:, 3]
        fine = given.isfinite().all(dim=1) & area.isfinite() & (area >= LEAST_AREA)
        boxes[~fine] = boxes.new_tensor([0.0, 0.0, 1.0, 1.0, 0.0])
        sound &= fine
    b[:, :2] -= a[:, :2]
    a[:, :2] = 0.0
    edges = [_torch_edges(boxes, turn) for boxes in (a, b)]
    at = torch.cat([edges[0][:, :, 0], edges[1][:, :, 0], _torch_crossings(*edges)], dim=1).sort(dim=1).values
    middle, width = (at[:, 1:] + at[:, :-1]) / 2, at[:, 1:] - at[:, :-1]
    low, high = _torch_heights(a, middle, turn)
    other_low, other_high = _torch_heights(b, middle, turn)
    height = (torch.minimum(high, other_high) - torch.maximum(low, other_low)).clamp(min=0)
    common = (height * width).sum(dim=1)
    both = a[:, 2] * a[:, 3] + b[:, 2] * b[:, 3]
    return (common / (both - common)).masked_fill(~sound, 0.0)


def _torch_edges(boxes: Any, turn: float) -> Any:
    """[n, 4, 4]: x and y of an edge's start, and what they grow by to its end."""
    import torch

    sine, cosine = (turn * boxes[:, 4]).sin(), (turn * boxes[:, 4]).cos()
    width, height = boxes[:, 2], boxes[:, 3]
    along = torch.stack([width * cosine, width * sine], dim=1)
    across = torch.stack([-height * sine, height * cosine], dim=1)
    starts = [boxes[:, :2] - along / 2 - across / 2]
    for side in (along, across, -along):
        starts.append(starts[-1] + side)
    sides = torch.stack([along, across, -along, -across], dim=1)
    return torch.cat([torch.stack(starts, dim=1), sides], dim=2)


def _torch_crossings(a: Any, b: Any) -> Any:
    """x of where lines along edges cross, within each first edge; of its start where they do not."""
    first, other = a.unsqueeze(2), b.unsqueeze(1)
    cross = first[..., 2] * other[..., 3] - first[..., 3] * other[..., 2]
    apart_x, apart_y = other[..., 0] - first[..., 0], other[..., 1] - first[..., 1]
    t = (apart_x * other[..., 3] - apart_y * other[..., 2]) / cross
    t = t.nan_to_num(0.0, 0.0, 0.0).clamp(0, 1)
    return (first[..., 0] + t * first[..., 2]).flatten(1)


def _torch_heights(boxes: Any, x: Any, turn: float) -> tuple[Any, Any]:
    """The lowest and highest y of boxes at x [n, m]; the lowest above the highest where there is none."""
    import torch

    angle = turn * boxes[:, 4:]
    apart = x - boxes[:, :1]
    low, high = torch.full_like(x, -torch.inf), torch.full_like(x, torch.inf)
    for size, along, upwards in (
        (boxes[:, 2:3], angle.cos(), angle.sin()),
        (boxes[:, 3:4], -angle.sin(), angle.cos()),
    ):
        half = size.abs() / 2
        flat = (upwards.abs() < 1e-300).expand_as(x)
        rise = torch.where(upwards.abs() < 1e-300, torch.ones_like(upwards), upwards)
        ends = torch.stack([(-half - apart * along) / rise, (half - apart * along) / rise])
        out = flat & ((apart * along).abs() > half)
        low = torch.where(flat, low, torch.maximum(low, ends.amin(dim=0)))
        high = torch.where(flat, high, torch.minimum(high, ends.amax(dim=0)))
        low = low.masked_fill(out, torch.inf)
    return low + boxes[:, 1:2], high + boxes[:, 1:2]

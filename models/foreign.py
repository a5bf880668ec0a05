"""Provides custom operators as the exporters of other projects write them: foreign nodes in a file, ours in PyTorch.

Outside an export each function computes with torch.ops.trtsmith; within torch.export it stands for one foreign node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith


def _exporting() -> bool:
    """Whether torch.export runs. Before 2.12 torch.compile, too, takes is_exporting for true (pytorch/pytorch#176347)."""
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()


def efficient_nms(
    boxes: Tensor, scores: Tensor, *, score_threshold: float, iou_threshold: float, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """EfficientNMS_TRT: corners [N,B,4] and scores [N,B,C] of each class -> number of detections [N,1], and of the best
    `rows` corners [N,rows,4], scores and classes [N,rows]; zeros behind the last detection."""
    batch = scores.shape[0]
    if _exporting():
        number, found, best, classes = torch.onnx.ops.symbolic_multi_out(
            "TRT::EfficientNMS_TRT",
            (boxes, scores),
            {
                "score_threshold": score_threshold,
                "iou_threshold": iou_threshold,
                "max_output_boxes": rows,
                "background_class": -1,
                "score_activation": 0,
                "class_agnostic": 0,
                "box_coding": 0,
                "plugin_version": "1",
            },
            dtypes=(torch.int32, boxes.dtype, scores.dtype, torch.int32),
            shapes=((batch, 1), (batch, rows, 4), (batch, rows), (batch, rows)),
            version=1,
        )
        return number, found, best, classes
    settings: dict[str, Any] = {"inclusive": 1, "zero_filler": 1}
    number, found, best, classes, _ = torch.ops.trtsmith.detection_selection(
        boxes,
        scores,
        score_threshold=score_threshold,
        iou_threshold=iou_threshold,
        max_output_boxes=rows,
        **settings,
    )
    return number, found, best, classes


def multilevel_rotated_roi_align(
    rois: Tensor, maps: Sequence[Tensor], *, size: int, strides: Sequence[int], finest_scale: int = 56
) -> Tensor:
    """mmdeploy's MMCVMultiLevelRotatedRoiAlign: regions [K,6] (image, centre x and y, width, height, angle), in pixels and
    radians, and features [N,C,H,W] of levels with these strides -> [K,C,size,size]."""
    settings: dict[str, Any] = {
        "output_height": size,
        "output_width": size,
        "sampling_ratio": 2,
        "aligned": 1,
        "clockwise": 1,
        "finest_scale": finest_scale,
        "roi_scale_factor": -1.0,
    }
    if _exporting():
        return torch.onnx.ops.symbolic(
            "mmdeploy::MMCVMultiLevelRotatedRoiAlign",
            (rois, *maps),
            {**settings, "featmap_strides": [float(stride) for stride in strides]},
            dtype=rois.dtype,
            shape=(rois.shape[0], maps[0].shape[1], size, size),
            version=1,
        )
    levels = {f"x{i}": level for i, level in enumerate(maps)}
    padded = [float(stride) for stride in strides] + [0.0] * (8 - len(strides))
    found: Tensor = torch.ops.trtsmith.pyramid_rotated_region_align(
        rois, **levels, strides=padded, **settings
    )
    return found


def bev_pool_v2(
    depth: Tensor, feat: Tensor, ranks: Sequence[Tensor], *, planes: int, height: int, width: int
) -> Tensor:
    """BEVDet's bev_pool_v2: weights [M,D,h,w] of depths and features [M,h,w,C], and int32 ranks_depth, ranks_feat and
    ranks_bev [P] with interval_starts and interval_lengths [I] -> [1,C,planes,height,width]."""
    grid = {"output_height": height, "output_width": width}
    if _exporting():
        return torch.onnx.ops.symbolic(
            "mmdeploy::bev_pool_v2",
            (depth, feat, *ranks),
            {**grid, "output_z": planes},
            dtype=feat.dtype,
            shape=(1, feat.shape[3], planes, height, width),
            version=1,
        )
    pooled: Tensor = torch.ops.trtsmith.bev_pool(depth, feat, *ranks, **grid, output_planes=planes)
    return pooled.permute(3, 0, 1, 2)[None]


def selective_scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, z: Tensor, delta_bias: Tensor
) -> Tensor:
    """mamba_ssm's selective_scan_fn with delta_softplus: u, delta and gates z [N,D,L], rates a [D,S], b and c [N,S,L], d and
    delta_bias [D] -> [N,D,L]."""
    if _exporting():
        return torch.onnx.ops.symbolic(
            "mamba_ssm::SelectiveScan",
            (u, delta, a, b, c, d, z, delta_bias),
            {"delta_softplus": 1},
            dtype=u.dtype,
            shape=u.shape,
            version=1,
        )
    if torch.compiler.is_compiling():
        return _associative_scan(u, delta, a, b, c, d, z, delta_bias)
    found: Tensor = torch.ops.trtsmith.state_space_scan(
        u, delta, a, b[:, None], c[:, None], d, delta_bias, z, delta_softplus=1
    )[0]
    return found


def _associative_scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, z: Tensor, delta_bias: Tensor
) -> Tensor:
    """The same for torch.compile, as transformers has it: one kernel for the recurrence, where a loop is one a token."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def both(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    kind = torch.promote_types(u.dtype, torch.float32)
    step = F.softplus(delta.to(kind) + delta_bias.to(kind)[:, None])
    decay = (step[..., None] * a.to(kind)[:, None]).exp()  # [N,D,L,S]
    added = (step * u)[..., None] * b.transpose(1, 2)[:, None]
    mode = "pointwise" if u.is_cuda else "generic"
    _, states = associative_scan(both, (decay, added), dim=2, combine_mode=mode)
    found: Tensor = (states * c.transpose(1, 2)[:, None]).sum(-1) + d[:, None] * u
    return (found * F.silu(z)).to(u.dtype)


def furthest_point_sampling(points: Tensor, samples: int) -> Tensor:
    """Pointnet2's: clouds [N,P,3] -> numbers of points that are far from each other, int32 [N,samples]."""
    if _exporting():
        return torch.onnx.ops.symbolic(
            "TRT::FurthestPointSampling",
            (points,),
            {"npoint": samples},
            dtype=torch.int32,
            shape=(points.shape[0], samples),
            version=1,
        )
    found: Tensor = torch.ops.trtsmith.farthest_point_sampling(points, samples=samples, skip_origin=1)
    return found


def ball_query(middles: Tensor, points: Tensor, radius: float, places: int) -> Tensor:
    """Pointnet2's: middles [N,M,3] and clouds [N,P,3] -> numbers of points around each middle, int32 [N,M,places]."""
    if _exporting():
        return torch.onnx.ops.symbolic(
            "TRT::BallQuery",
            (middles, points),
            {"radius": radius, "nsample": places},
            dtype=torch.int32,
            shape=(*middles.shape[:2], places),
            version=1,
        )
    found: Tensor = torch.ops.trtsmith.ball_neighbours(points, middles, radius=radius, neighbours=places)[1]
    return found


def grouping_operation(features: Tensor, index: Tensor) -> Tensor:
    """Pointnet2's: features [N,C,P] at int32 [N,M,places] -> [N,C,M,places]."""
    shape = (features.shape[0], features.shape[1], *index.shape[1:])
    if _exporting():
        return torch.onnx.ops.symbolic(
            "TRT::GroupingOperation", (features, index), dtype=features.dtype, shape=shape, version=1
        )
    places = index.flatten(1)[:, None].long().expand(-1, features.shape[1], -1)
    return features.gather(2, places).view(shape)


def deformable_aggregation(
    features: Tensor,
    shapes: Sequence[tuple[int, int]],
    points: Tensor,
    lidar2img: Tensor,
    image_sizes: Tensor,
    weights: Tensor,
) -> Tensor:
    """Sparse4D's: features [N,F,C] of each camera's levels with these shapes, key points [N,A,P,3], lidar2img [N,K,4,4],
    image_sizes [N,K,2] and weights [N,A,P,K,L,G] -> [N,A,C]."""
    cameras, groups = lidar2img.shape[1], weights.shape[5]
    areas = [height * width for height, width in shapes]
    if _exporting():
        ends = torch.tensor(areas * cameras).cumsum(0).view(cameras, -1)
        starts = (ends - torch.tensor(areas)).int()
        sizes = torch.tensor([shapes] * cameras, dtype=torch.int32)
        return torch.onnx.ops.symbolic(
            "custom::DeformableAttentionAggrPlugin",
            (features, sizes, starts, points, lidar2img, image_sizes, weights),
            dtype=features.dtype,
            shape=(*weights.shape[:2], features.shape[2]),
            version=1,
        )
    # As Sparse4D samples without its kernel, but points outside an image do not count, as in the kernel.
    exact = torch.promote_types(features.dtype, torch.float32)
    camera = lidar2img.to(exact)[:, :, None, None]
    moved = (camera[..., :3] * points.to(exact)[:, None, :, :, None]).sum(-1) + camera[..., 3]  # [N,K,A,P,4]
    places = moved[..., :2] / moved[..., 2:3].clamp(min=1e-5) / image_sizes.to(exact)[:, :, None, None]
    counts = ((places > 0) & (places < 1)).all(-1, keepdim=True)
    grid = torch.where(counts, 2 * places - 1, -3.0).to(features.dtype).flatten(0, 1)
    total = None
    for level, rows in enumerate(features.unflatten(1, (cameras, -1)).split(areas, dim=2)):
        maps = rows.flatten(0, 1).transpose(1, 2).unflatten(2, shapes[level])
        found = F.grid_sample(maps, grid, align_corners=False).unflatten(0, (-1, cameras))
        shares = weights[..., level, :].permute(0, 3, 4, 1, 2)  # [N,K,G,A,P]
        part = (found.unflatten(2, (groups, -1)) * shares[:, :, :, None]).sum((1, 5))
        total = part if total is None else total + part
    assert total is not None
    return total.flatten(1, 2).transpose(1, 2)

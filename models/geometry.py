"""A camera-to-bird's-eye-view network: features are lifted onto the ground with inverted camera matrices.

The inverse of the intrinsics gives every feature pixel its viewing ray (as in PETR, arXiv:2203.05625); the inverse of
the camera's pose brings points of the ground into the camera, where the features are sampled (inverse perspective
mapping).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import init_weights, seeded


def pixel_centers(height: int, width: int, stride: int) -> Tensor:
    """Homogeneous image coordinates (u, v, 1) of feature pixel centres, [3, H*W]."""
    v, u = torch.meshgrid(
        (torch.arange(height, dtype=torch.float32) + 0.5) * stride,
        (torch.arange(width, dtype=torch.float32) + 0.5) * stride,
        indexing="ij",
    )
    return torch.stack((u, v, torch.ones_like(u))).flatten(1)


def ground_points(size: int, near: float, extent: float, heights: tuple[float, ...]) -> Tensor:
    """Homogeneous points (x forward, y left, z up, 1) in metres on horizontal planes, [4, planes*size*size]."""
    step = extent / size
    forward = near + (torch.arange(size, dtype=torch.float32) + 0.5) * step
    left = extent / 2 - (torch.arange(size, dtype=torch.float32) + 0.5) * step
    z, x, y = torch.meshgrid(torch.tensor(heights), forward, left, indexing="ij")
    return torch.stack((x, y, z, torch.ones_like(x))).flatten(1)


def conv_bn_relu(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


class BEVLift(nn.Module):
    """image [N,3,height,width], intrinsics [N,3,3] (pixels), extrinsics [N,4,4] (camera to vehicle)
    -> heatmap [N,num_classes,bev,bev] in 0..1, elevation [N,1,bev,bev] in metres."""

    pixels: Tensor
    points: Tensor

    def __init__(
        self,
        height: int = 128,
        width: int = 128,
        channels: int = 64,
        bev_size: int = 64,
        num_classes: int = 4,
        heights: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5),
    ) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.bev_size = bev_size
        self.encoder = nn.Sequential(
            conv_bn_relu(3, channels // 2, stride=2),
            conv_bn_relu(channels // 2, channels, stride=2),
            conv_bn_relu(channels, channels),
        )
        self.ray_embed = nn.Sequential(nn.Conv2d(3, channels, 1), nn.ReLU(), nn.Conv2d(channels, channels, 1))
        self.bev = nn.Sequential(
            conv_bn_relu(channels * len(heights), 2 * channels), conv_bn_relu(2 * channels, channels)
        )
        self.heatmap = nn.Conv2d(channels, num_classes, 1)
        self.elevation = nn.Conv2d(channels, 1, 1)
        self.register_buffer("pixels", pixel_centers(height // 4, width // 4, 4), persistent=False)
        self.register_buffer("points", ground_points(bev_size, 3.0, 16.0, heights), persistent=False)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        assert self.heatmap.bias is not None
        nn.init.normal_(self.heatmap.bias, mean=-2.0, std=0.2)

    def forward(self, image: Tensor, intrinsics: Tensor, extrinsics: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(image)

        rays = extrinsics[:, :3, :3] @ torch.linalg.inv(intrinsics) @ self.pixels
        rays = F.normalize(rays, dim=1).reshape(-1, 3, self.height // 4, self.width // 4)
        features = features + self.ray_embed(rays)

        vehicle_to_camera = torch.linalg.inv(extrinsics)[:, :3]
        projected = intrinsics @ (vehicle_to_camera @ self.points)
        depth = projected[:, 2:]
        # Points behind the camera would project into the image mirrored: they are clamped here and masked below.
        uv = projected[:, :2] / depth.clamp(min=0.1)
        size = uv.new_tensor([self.width, self.height]).reshape(1, 2, 1)
        grid = (2 * uv / size - 1).transpose(1, 2).reshape(image.shape[0], -1, self.bev_size, 2)
        lifted = F.grid_sample(features, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        visible = (depth > 0.1).to(lifted.dtype).reshape(image.shape[0], 1, -1, self.bev_size)
        # [N, C, planes*bev, bev] -> [N, C*planes, bev, bev]
        x = self.bev((lifted * visible).reshape(image.shape[0], -1, self.bev_size, self.bev_size))
        return torch.sigmoid(self.heatmap(x)), self.elevation(x)


def example_cameras(batch: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Intrinsics [batch,3,3] of a 65-degree camera and extrinsics [batch,4,4] of a roof mount, each a little different.

    The camera (x right, y down, z forward) sits 1.6 m above and 1.5 m ahead of the vehicle's origin (x forward, y left,
    z up).
    """
    to_vehicle = torch.tensor([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    intrinsics, extrinsics = [], []
    for i in range(batch):
        focal = 0.78 * width * (1 + 0.05 * i)
        k = [[focal, 0.0, width / 2 + 1.5 * i], [0.0, 1.02 * focal, height / 2 - i], [0.0, 0.0, 1.0]]
        intrinsics.append(torch.tensor(k))
        yaw, pitch = math.radians(4.0 * i - 2.0), math.radians(8.0 + 2.0 * i)
        cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
        turn = torch.tensor([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
        nod = torch.tensor([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])  # positive looks down
        pose = torch.eye(4)
        pose[:3, :3] = turn @ nod @ to_vehicle
        pose[:3, 3] = torch.tensor([1.5, 0.05 * i, 1.6])
        extrinsics.append(pose)
    return torch.stack(intrinsics), torch.stack(extrinsics)


def build_geometry(seed: int = 0, **sizes: object) -> BEVLift:
    """BEVLift(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = BEVLift(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

"""A LiDAR detector with a sparse backbone, as CenterPoint (arXiv:2006.11275): points become voxels, which submanifold and
strided convolutions (SECOND; Graham et al., arXiv:1711.10275) see before they are laid out as a map of the ground."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith
from models.geometry import conv_bn_relu
from models.layers import init_weights, seeded, zero_mean_kaiming_

FRAMES = 4
"""Frames at most: an attribute of the rulebooks."""

POINT = 4
"""Numbers of a point: x, y, z and intensity."""

NEIGHBOURS = 12
"""Of the 27 cells that the taps read, about so many hold a voxel: what makes the sums as large as their inputs."""

RELU = 1


class SparseConvolution(nn.Module):
    """Rows [rows, C] and a rulebook [27, M] -> rows [M, O], rectified; the weights are as spconv keeps them."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, 3, 3, 3, in_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        zero_mean_kaiming_(self.weight)
        self.weight.mul_(math.sqrt(27 / NEIGHBOURS))
        nn.init.normal_(self.bias, std=0.1)

    def forward(self, rows: Tensor, pairs: Tensor) -> Tensor:
        found: Tensor = torch.ops.trtsmith.rulebook_convolution(
            rows, self.weight, pairs, self.bias, activation=RELU
        )
        return found


class VoxelBackbone(nn.Module):
    """points [N,P,4], N at most FRAMES, of which the first num_points [N] (int32) of each frame count
    -> heatmap [N,num_classes,y/4,x/4] in 0..1 and boxes [N,8,y/4,x/4].

    extent: metres that the grid goes to all sides. grid: its cells along z, y and x, multiples of four; along z it goes
    from 5 m below the sensor to 3 m above it.
    """

    def __init__(
        self,
        extent: float = 51.2,
        grid: tuple[int, int, int] = (32, 512, 512),
        max_voxels: int = 20_000,
        channels: int = 16,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.extent, self.grid, self.max_voxels = extent, grid, max_voxels
        c = channels
        self.embed = nn.Linear(POINT, c)
        self.submanifold = nn.ModuleList(
            nn.ModuleList(SparseConvolution(c << level, c << level) for _ in range(2)) for level in range(3)
        )
        self.strided = nn.ModuleList(SparseConvolution(c << level, 2 * c << level) for level in range(2))
        self.ground = nn.Sequential(conv_bn_relu(grid[0] * c, 4 * c), conv_bn_relu(4 * c, 4 * c))
        self.heatmap = nn.Conv2d(4 * c, num_classes, 1)
        self.boxes = nn.Conv2d(4 * c, 8, 1)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        for module in self.modules():
            if isinstance(module, SparseConvolution):
                module.reset_parameters()
        # Coordinates in parts of the grid, and a map in which most cells are empty.
        self.embed.weight.mul_(torch.tensor([4 / self.extent, 4 / self.extent, 0.5, 2.0]))
        assert self.heatmap.bias is not None
        nn.init.normal_(self.heatmap.bias, mean=-2.0, std=0.2)

    def voxels(self, points: Tensor, num_points: Tensor) -> tuple[Tensor, Tensor]:
        """Means of the points of each voxel [N*V,4], and its cell (frame, z, y, x) [N*V,4]; the frame of no voxel is -1."""
        z, y, x = self.grid
        low, high = (-self.extent, -self.extent, -5.0), (self.extent, self.extent, 3.0)
        sums, cells, counts, number = torch.ops.trtsmith.voxel_generation(
            points,
            num_points,
            max_points=10,
            max_voxels=self.max_voxels,
            features=POINT,
            point_cloud_range=[*low, *high],
            voxel_size=[2 * self.extent / x, 2 * self.extent / y, 8.0 / z],
        )
        means = sums.sum(2) / counts.clamp(min=1)[..., None].to(sums.dtype)
        frame = torch.arange(points.shape[0], device=points.device, dtype=cells.dtype)[:, None]
        row = torch.arange(self.max_voxels, device=points.device, dtype=cells.dtype)
        frame = torch.where(row < number[:, None], frame, -1)
        return means.flatten(0, 1), torch.cat((frame[..., None], cells[..., 1:]), dim=2).flatten(0, 1)

    def forward(self, points: Tensor, num_points: Tensor) -> tuple[Tensor, Tensor]:
        means, cells = self.voxels(points, num_points)
        rows = torch.relu(self.embed(means))
        kernel, grid = [3, 3, 3], self.grid
        for level, convolutions in enumerate(self.submanifold):
            if level:
                cells, pairs, _ = torch.ops.trtsmith.strided_rulebook(
                    cells, FRAMES, list(grid), kernel, stride=[2, 2, 2], padding=[1, 1, 1]
                )
                rows = self.strided[level - 1](rows, pairs)
                grid = (grid[0] // 2, grid[1] // 2, grid[2] // 2)
            pairs = torch.ops.trtsmith.submanifold_rulebook(cells, FRAMES, list(grid), kernel)
            assert isinstance(
                convolutions, nn.ModuleList
            )  # for who reads types: an element of a ModuleList is a Module
            for convolution in convolutions:
                rows = convolution(rows, pairs)

        frames, (z, y, x) = points.shape[0], grid
        frame, at_z, at_y, at_x = cells.long().unbind(1)
        dense = rows.new_zeros(frames, z, y, x, rows.shape[1]).index_put((frame, at_z, at_y, at_x), rows)
        ground = self.ground(dense.permute(0, 4, 1, 2, 3).flatten(1, 2))
        return torch.sigmoid(self.heatmap(ground)), self.boxes(ground)


def lidar_inputs(
    batch: int, beams: int, turns: int, extent: float = 51.2, capacity: int = 40_000
) -> dict[str, Tensor]:
    """What a sensor with so many beams measures in so many directions: flat ground 1.8 m below, and a wavy wall around.

    Every frame has fewer points than the one before, and rows of zeros behind them. Coordinates are odd multiples of
    1 / 32 m, which float16 holds up to 64 m and no side of a voxel lies at: a type that moved points to other voxels would
    be judged by where they lie, and not by what the network computes.
    """
    frames, counts = [], []
    for i in range(batch):
        generator = torch.Generator().manual_seed(i)
        yaw = torch.linspace(0, 2 * math.pi, turns + 1)[:-1].repeat(beams)
        pitch = torch.linspace(-0.45, 0.05, beams).repeat_interleave(turns)
        wall = extent * (0.45 + 0.2 * torch.sin(3 * yaw + i) + 0.1 * torch.cos((7 + i) * yaw))
        away = torch.where(pitch < 0, torch.minimum(wall, 1.8 / (-pitch).clamp(min=1e-3).tan()), wall)
        away = away + 0.03 * torch.randn(len(yaw), generator=generator)
        bright = torch.rand(len(yaw), generator=generator)
        places = torch.stack((away * yaw.cos(), away * yaw.sin(), away * pitch.tan()), dim=1)
        points = torch.cat((((16 * places).floor() + 0.5) / 16, bright[:, None]), dim=1)
        points = points[torch.rand(len(yaw), generator=generator).argsort()][
            : capacity - capacity // 8 * (i % 4)
        ]
        frames.append(torch.cat((points, torch.zeros(capacity - len(points), POINT))))
        counts.append(len(points))
    return {"points": torch.stack(frames), "num_points": torch.tensor(counts, dtype=torch.int32)}


def build_voxel_backbone(seed: int = 0, **sizes: object) -> VoxelBackbone:
    """VoxelBackbone(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = VoxelBackbone(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

"""The view transformer of BEVDet (arXiv:2112.11790): pixels of six cameras are lifted by a distribution of depths and pooled
on the ground (BEVPoolv2, arXiv:2211.17111), where a few convolutions see them.

Where every pixel lies at every depth is known from the cameras, and so are the ranks that the pooling reads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.bevformer_layer import CAMERAS, EXTENT
from models.foreign import bev_pool_v2
from models.geometry import conv_bn_relu
from models.layers import init_weights, seeded
from models.photo import photo_batch

STRIDE = 16
FRAMES = 4
"""Frames at most: so many grids the pooling makes, because their number is an attribute of its node."""


def lifted_points(height: int, width: int, depths: Tensor) -> Tensor:
    """Vehicle coordinates (x forward, y left, z up), in metres, of every feature pixel of the cameras at every depth:
    [6, D, height/16, width/16, 3]."""
    v, u = (torch.arange(size // STRIDE) * STRIDE + STRIDE / 2 for size in (height, width))
    points = []
    for degrees, view in CAMERAS:
        yaw, focal = math.radians(degrees), width / 2 / math.tan(math.radians(view) / 2)
        ahead = depths[:, None, None].expand(-1, len(v), len(u))
        right = ahead * ((u - width / 2) / focal)
        up = ahead * ((height / 2 - v) / focal)[:, None]
        x = (ahead + 1.0) * math.cos(yaw) + right * math.sin(yaw)
        y = (ahead + 1.0) * math.sin(yaw) - right * math.cos(yaw)
        points.append(torch.stack((x, y, up + 1.5), dim=-1))
    return torch.stack(points)


def pooling_ranks(points: Tensor, bev_size: int) -> list[Tensor]:
    """ranks_depth, ranks_feat and ranks_bev [P], interval_starts and interval_lengths [I] of points [M,D,h,w,3], int32.

    Points between 3 m below and 5 m above the ground count; those of a cell are one interval.
    """
    cameras, depths, h, w, _ = points.shape
    cell = ((points[..., :2] + EXTENT / 2) * (bev_size / EXTENT)).floor().long()
    counts = ((cell >= 0) & (cell < bev_size)).all(-1) & (points[..., 2] > -3.0) & (points[..., 2] < 5.0)
    pixel = torch.arange(cameras * h * w).reshape(cameras, 1, h, w).expand(-1, depths, -1, -1)
    bev, order = (cell[..., 1] * bev_size + cell[..., 0])[counts].sort(stable=True)
    _, lengths = bev.unique_consecutive(return_counts=True)
    ranks = [counts.flatten().nonzero()[:, 0][order], pixel[counts][order], bev]
    return [rank.int() for rank in (*ranks, lengths.cumsum(0) - lengths, lengths)]


class BEVDetView(nn.Module):
    """image [N,6,3,height,width], both multiples of 16 and N at most FRAMES -> heatmap [N,num_classes,bev,bev] in 0..1 and
    boxes [N,8,bev,bev]; rows of the grid go along y, columns along x."""

    ranks_depth: Tensor
    ranks_feat: Tensor
    ranks_bev: Tensor
    interval_starts: Tensor
    interval_lengths: Tensor

    def __init__(
        self,
        height: int = 256,
        width: int = 704,
        channels: int = 80,
        depths: int = 59,
        bev_size: int = 128,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.channels, self.depths, self.bev_size = channels, depths, bev_size
        self.cells = height // STRIDE * (width // STRIDE) * len(CAMERAS)
        c = channels
        self.encoder = nn.Sequential(*(conv_bn_relu(i, c, stride=2) for i in (3, c, c, c)))
        self.depth_net = nn.Conv2d(c, depths + c, 1)
        self.bev = nn.Sequential(conv_bn_relu(c, c), conv_bn_relu(c, c))
        self.heatmap = nn.Conv2d(c, num_classes, 1)
        self.boxes = nn.Conv2d(c, 8, 1)
        points = lifted_points(height, width, 1.0 + torch.arange(depths) * (EXTENT / 2 / depths))
        names = ("ranks_depth", "ranks_feat", "ranks_bev", "interval_starts", "interval_lengths")
        for name, rank in zip(names, pooling_ranks(points, bev_size), strict=True):
            self.register_buffer(name, rank, persistent=False)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        # Depths that are clear at some pixels and open at others, as after training.
        self.depth_net.weight[: self.depths].mul_(2.0)
        assert self.depth_net.bias is not None
        assert self.heatmap.bias is not None
        # Few pixels see what is near, and each cell of the ground is then seen by about as many.
        self.depth_net.bias[: self.depths] = 2 * torch.linspace(1 / self.depths, 1.0, self.depths).log()
        nn.init.normal_(self.heatmap.bias, mean=-1.5, std=0.2)

    def ranks(self, frames: int) -> list[Tensor]:
        """Those of so many frames, one after the other."""
        number = torch.arange(frames, device=self.ranks_bev.device, dtype=torch.int32)[:, None]
        moved = (
            (self.ranks_depth, self.cells * self.depths),
            (self.ranks_feat, self.cells),
            (self.ranks_bev, self.bev_size**2),
            (self.interval_starts, len(self.ranks_bev)),
            (self.interval_lengths, 0),
        )
        return [(rank + number * step).flatten() for rank, step in moved]

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        frames = image.shape[0]
        depth, features = self.depth_net(self.encoder(image.flatten(0, 1))).split(
            (self.depths, self.channels), dim=1
        )
        pooled = bev_pool_v2(
            depth.softmax(1),
            features.permute(0, 2, 3, 1).contiguous(),
            self.ranks(frames),
            planes=FRAMES,
            height=self.bev_size,
            width=self.bev_size,
        )
        x = self.bev(pooled[0].transpose(0, 1)[:frames])
        return torch.sigmoid(self.heatmap(x)), self.boxes(x)


def bevdet_inputs(batch: int, height: int, width: int) -> dict[str, Tensor]:
    """The photograph, turned a sixth further for each camera."""
    photos = photo_batch(height, width, batch)
    views = [photos.roll(k * width // len(CAMERAS), dims=3) for k in range(len(CAMERAS))]
    return {"image": torch.stack(views, dim=1)}


def build_bevdet_view(seed: int = 0, **sizes: object) -> BEVDetView:
    """BEVDetView(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = BEVDetView(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

"""One encoder layer of BEVFormer-base (Li et al., ECCV 2022, arXiv:2203.17270): attention over time, then over cameras.

Queries lie on a grid over the ground around the vehicle. Where each of them is seen, by which camera, is an input, as the
camera matrices decide it and not the network. Every camera attends with every query and the mask takes out what it does
not see: the same sums as with the queries of each camera gathered, and shapes that do not depend on data.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.deformable_detr import FeedForward, encoder_reference_points, feature_level_shapes
from models.layers import init_weights, seeded, zero_mean_kaiming_
from models.ms_deform_attn import LevelShapes, LevelTables, head_directions
from models.photo import photo_batch, photo_tokens

FRAMES = 2
EXTENT = 102.4
"""Metres of ground that the grid covers in each direction."""
HEIGHTS = (-4.5, -2.1666667, 0.1666667, 2.5)
"""Metres above the origin of the four anchors of a pillar: evenly from -5 + 0.5 to 3 - 0.5."""


class TemporalSelfAttention(LevelTables):
    """Each query samples the previous grid and the present one; the mean of both is projected and added to it."""

    def __init__(self, bev_size: int, channels: int, heads: int, points: int) -> None:
        super().__init__(((bev_size, bev_size),))
        self.heads, self.points = heads, points
        self.sampling_offsets = nn.Linear(2 * channels, FRAMES * heads * points * 2)
        self.attention_weights = nn.Linear(2 * channels, FRAMES * heads * points)
        self.value_proj = nn.Linear(channels, channels)
        self.output_proj = nn.Linear(channels, channels)

    @torch.no_grad()
    def reset_sampling(self) -> None:
        reach = torch.arange(1, self.points + 1, dtype=torch.float32)[:, None]
        start = head_directions(self.heads)[:, None, None] * reach
        self.sampling_offsets.bias.copy_(start.expand(-1, FRAMES, -1, -1).flatten())
        _spread(self)

    def forward(self, query: Tensor, position: Tensor, previous: Tensor, reference: Tensor) -> Tensor:
        """query and previous [N,Q,C], position [1,Q,C], reference [N,2,Q,2] in 0..1: in the previous grid, in this."""
        n, q, c = query.shape
        value = self.value_proj(torch.stack((previous, query), dim=1))
        value = value.reshape(n * FRAMES, q, self.heads, c // self.heads)
        both = torch.cat((previous, query + position), dim=-1)
        offsets = self.sampling_offsets(both).view(n, q, self.heads, FRAMES, self.points, 2)
        weights = F.softmax(self.attention_weights(both).view(n, q, self.heads, FRAMES, self.points), -1)
        # The frames become part of the batch: one level each.
        offsets = (offsets / self.offset_normalizer[0]).permute(0, 3, 1, 2, 4, 5)
        locations = (reference[:, :, :, None, None] + offsets).reshape(
            n * FRAMES, q, self.heads, 1, self.points, 2
        )
        weights = weights.permute(0, 3, 1, 2, 4).reshape(n * FRAMES, q, self.heads, 1, self.points)
        attended = self.attend(value, locations, weights).view(n, FRAMES, q, c).mean(1)
        return query + self.output_proj(attended)


class SpatialCrossAttention(LevelTables):
    """Each query samples the cameras around the points where its pillar is seen; the mean over those that see it is
    projected and added to it."""

    def __init__(
        self, level_shapes: LevelShapes, channels: int, heads: int, points: int, anchors: int
    ) -> None:
        super().__init__(level_shapes)
        self.heads, self.points, self.anchors = heads, points, anchors
        self.sampling_offsets = nn.Linear(channels, heads * self.n_levels * points * 2)
        self.attention_weights = nn.Linear(channels, heads * self.n_levels * points)
        self.value_proj = nn.Linear(channels, channels)
        self.output_proj = nn.Linear(channels, channels)

    @torch.no_grad()
    def reset_sampling(self) -> None:
        reach = torch.arange(1, self.points + 1, dtype=torch.float32)[:, None]
        start = head_directions(self.heads)[:, None, None] * reach
        self.sampling_offsets.bias.copy_(start.expand(-1, self.n_levels, -1, -1).flatten())
        _spread(self)

    def forward(self, query: Tensor, features: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
        """query [N,Q,C], features [N,K,S,C] of K cameras, reference [N,K,Q,Z,2] in 0..1, mask [N,K,Q,Z] of 0 and 1."""
        n, q, c = query.shape
        k, s = features.shape[1:3]
        around, anchors = self.points // self.anchors, self.anchors
        value = self.value_proj(features).reshape(n * k, s, self.heads, c // self.heads)
        # Offsets and weights depend on the query alone, so all cameras share them. Points vary fastest by anchor.
        offsets = self.sampling_offsets(query).view(n, q, self.heads, self.n_levels, self.points, 2)
        offsets = offsets / self.offset_normalizer[:, None]
        offsets = offsets.reshape(n, 1, q, self.heads * self.n_levels * around, anchors, 2)
        locations = (reference[:, :, :, None] + offsets).reshape(
            n * k, q, self.heads, self.n_levels, self.points, 2
        )
        weights = self.attention_weights(query).view(n, 1, q, self.heads, self.n_levels * self.points)
        weights = F.softmax(weights, -1).expand(n, k, q, self.heads, self.n_levels * self.points)
        weights = weights.reshape(n * k, q, self.heads, self.n_levels, self.points)
        attended = self.attend(value, locations, weights).view(n, k, q, c)
        seen = mask.amax(-1)
        total = (attended * seen[..., None]).sum(1)
        return query + self.output_proj(total / seen.sum(1).clamp(min=1)[..., None])


@torch.no_grad()
def _spread(attention: TemporalSelfAttention | SpatialCrossAttention) -> None:
    """What training adds: offsets and weights that depend on the query."""
    nn.init.normal_(attention.sampling_offsets.weight, std=0.05)
    nn.init.normal_(attention.attention_weights.weight, std=0.05)
    nn.init.xavier_uniform_(attention.output_proj.weight, gain=2.0)  # makes up for averaging over the samples


class BEVFormerLayer(nn.Module):
    """bev_query and previous_bev [N,Q,C]; shift [N,2], the vehicle's motion in parts of the grid; camera_features
    [N,K,S,C]; reference_points [N,K,Q,Z,2], (x, y) in 0..1 of each anchor in each image; hits [N,K,Q,Z], 1 where the
    anchor is in the image, 0 elsewhere -> bev [N,Q,C]. Q is bev_size squared, row by row."""

    grid: Tensor

    def __init__(
        self,
        height: int = 928,
        width: int = 1600,
        bev_size: int = 200,
        channels: int = 256,
        heads: int = 8,
        temporal_points: int = 4,
        spatial_points: int = 8,
        dim_feedforward: int = 512,
    ) -> None:
        super().__init__()
        self.bev_size = bev_size
        self.row_embed = nn.Embedding(bev_size, channels // 2)
        self.column_embed = nn.Embedding(bev_size, channels // 2)
        self.temporal = TemporalSelfAttention(bev_size, channels, heads, temporal_points)
        self.norm1 = nn.LayerNorm(channels)
        self.spatial = SpatialCrossAttention(
            feature_level_shapes(height, width), channels, heads, spatial_points, len(HEIGHTS)
        )
        self.norm2 = nn.LayerNorm(channels)
        self.ffn = FeedForward(channels, dim_feedforward)
        self.register_buffer(
            "grid", encoder_reference_points(((bev_size, bev_size),))[None], persistent=False
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        self.temporal.reset_sampling()
        self.spatial.reset_sampling()
        zero_mean_kaiming_(self.ffn.linear2.weight)
        for embed in (self.row_embed, self.column_embed):
            nn.init.uniform_(embed.weight)

    def position(self) -> Tensor:
        """The learned embedding of column and row, [1,Q,C]."""
        size = self.bev_size
        columns = self.column_embed.weight[None].expand(size, -1, -1)
        rows = self.row_embed.weight[:, None].expand(-1, size, -1)
        return torch.cat((columns, rows), dim=-1).reshape(1, size * size, -1)

    def forward(
        self,
        bev_query: Tensor,
        previous_bev: Tensor,
        shift: Tensor,
        camera_features: Tensor,
        reference_points: Tensor,
        hits: Tensor,
    ) -> tuple[Tensor]:
        moved = self.grid + shift[:, None]
        reference = torch.stack((moved, self.grid.expand_as(moved)), dim=1)
        x = self.norm1(self.temporal(bev_query, self.position(), previous_bev, reference))
        x = self.norm2(self.spatial(x, camera_features, reference_points, hits))
        return (self.ffn(x),)


CAMERAS = ((0, 70), (55, 70), (-55, 70), (110, 70), (-110, 70), (180, 110))
"""Yaw and horizontal field of view in degrees of a ring of cameras as nuScenes has it."""


def example_projections(batch: int, height: int, width: int, bev_size: int) -> tuple[Tensor, Tensor]:
    """The anchors of all pillars in the images of a ring of cameras, each set mounted a little differently.

    Gives reference points [batch,6,bev_size**2,4,2], (x, y) in parts of the image, far outside of it for a point behind
    the camera, and hits [batch,6,bev_size**2,4]. Vehicle axes are x forward, y left, z up; rows go along y, columns
    along x.
    """
    centres = (torch.arange(bev_size, dtype=torch.float32) + 0.5) * (EXTENT / bev_size) - EXTENT / 2
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    z = torch.tensor(HEIGHTS)
    points, hits = [], []
    for i in range(batch):
        for degrees, view in CAMERAS:
            yaw = math.radians(degrees + 1.5 * i)
            ahead = (x * math.cos(yaw) + y * math.sin(yaw) - 1.0).reshape(-1, 1)
            right = (x * math.sin(yaw) - y * math.cos(yaw)).reshape(-1, 1)
            focal = width / 2 / math.tan(math.radians(view) / 2)
            depth = ahead.clamp(min=1e-5)
            u = 0.5 + focal / width * (right / depth).expand(-1, len(HEIGHTS))
            v = 0.5 + focal / height * (1.5 + 0.1 * i - z) / depth
            points.append(torch.stack((u, v), dim=-1))
            hits.append((ahead > 1e-5) & (u > 0) & (u < 1) & (v > 0) & (v < 1))
    shape = (batch, len(CAMERAS), bev_size * bev_size, len(HEIGHTS))
    return torch.stack(points).reshape(*shape, 2), torch.stack(hits).reshape(shape).float()


def bevformer_inputs(
    batch: int, height: int, width: int, bev_size: int = 200, channels: int = 256
) -> dict[str, Tensor]:
    """The photograph, turned a sixth further for each camera, as features; its own for the grids."""
    photos = photo_batch(height, width, batch)
    views = [photos.roll(k * width // len(CAMERAS), dims=3) for k in range(len(CAMERAS))]
    levels = feature_level_shapes(height, width)
    features = torch.stack([photo_tokens(view, levels, channels) for view in views], dim=1)
    grid = ((bev_size, bev_size),)
    reference_points, hits = example_projections(batch, height, width, bev_size)
    return {
        "bev_query": photo_tokens(photos, grid, channels),
        "previous_bev": photo_tokens(photos.flip(2), grid, channels),
        "shift": torch.tensor([[0.01 * (i + 1), -0.004 * i] for i in range(batch)]),
        "camera_features": features,
        "reference_points": reference_points,
        "hits": hits,
    }


def build_bevformer_layer(seed: int = 0, **sizes: object) -> BEVFormerLayer:
    """BEVFormerLayer(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = BEVFormerLayer(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

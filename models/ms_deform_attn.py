"""Multi-scale deformable attention (Zhu et al., arXiv:2010.04159), by the custom operator or by grid_sample."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith

LevelShapes = tuple[tuple[int, int], ...]
Msda = Literal["custom_op", "grid_sample"]


def ms_deform_attn_grid_sample(
    value: Tensor, level_shapes: LevelShapes, sampling_locations: Tensor, attention_weights: Tensor
) -> Tensor:
    """Multi-scale deformable attention in standard operators: one grid_sample per level, stacked and weighted.

    value [N,S,M,D], sampling_locations [N,Lq,M,L,P,2], attention_weights [N,Lq,M,L,P] -> [N,Lq,M*D].
    """
    n, _, m, d = value.shape
    _, lq, _, levels, points, _ = sampling_locations.shape
    value_list = value.split([h * w for h, w in level_shapes], dim=1)
    sampling_grids = 2 * sampling_locations - 1
    sampling_value_list = []
    for level, (h, w) in enumerate(level_shapes):
        # [N,H*W,M,D] -> [N*M,D,H,W]
        value_l = value_list[level].flatten(2).transpose(1, 2).reshape(n * m, d, h, w)
        # [N,Lq,M,P,2] -> [N*M,Lq,P,2]
        sampling_grid_l = sampling_grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        # [N*M,D,Lq,P]
        sampling_value_list.append(
            F.grid_sample(
                value_l, sampling_grid_l, mode="bilinear", padding_mode="zeros", align_corners=False
            )
        )
    attention_weights = attention_weights.transpose(1, 2).reshape(n * m, 1, lq, levels * points)
    sampled = torch.stack(sampling_value_list, dim=-2).flatten(-2)
    output = (sampled * attention_weights).sum(-1).view(n, m * d, lq)
    return output.transpose(1, 2).contiguous()


class LevelTables(nn.Module):
    """The shapes of the levels that an attention samples, as the constants that the operator and its inputs need."""

    spatial_shapes: Tensor
    level_start_index: Tensor
    offset_normalizer: Tensor

    def __init__(self, level_shapes: LevelShapes) -> None:
        super().__init__()
        self.level_shapes = level_shapes
        self.n_levels = len(level_shapes)
        shapes = torch.tensor(level_shapes, dtype=torch.int64)
        sizes = shapes.prod(1)
        self.register_buffer("spatial_shapes", shapes, persistent=False)
        self.register_buffer("level_start_index", sizes.cumsum(0) - sizes, persistent=False)
        self.register_buffer("offset_normalizer", shapes.flip(-1).float(), persistent=False)

    def attend(self, value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        """value [N,S,M,D], locations [N,Lq,M,L,P,2] in 0..1, weights [N,Lq,M,L,P] -> [N,Lq,M*D]."""
        attended: Tensor = torch.ops.trtsmith.multiscale_deformable_attention(
            value, self.spatial_shapes, self.level_start_index, locations, weights
        )
        return attended


def head_directions(heads: int) -> Tensor:
    """The step (x, y) in pixels in which each head looks at the start of training, [heads, 2], largest part 1."""
    angles = torch.arange(heads, dtype=torch.float32) * (2 * math.pi / heads)
    directions = torch.stack((angles.cos(), angles.sin()), -1)
    return directions / directions.abs().amax(-1, keepdim=True)


class MSDeformAttn(LevelTables):
    """Multi-scale deformable attention, the module around the core."""

    def __init__(
        self, d_model: int, level_shapes: LevelShapes, n_heads: int, n_points: int, msda: Msda
    ) -> None:
        super().__init__(level_shapes)
        self.n_heads = n_heads
        self.n_points = n_points
        self.msda = msda
        self.sampling_offsets = nn.Linear(d_model, n_heads * self.n_levels * n_points * 2)
        self.attention_weights = nn.Linear(d_model, n_heads * self.n_levels * n_points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)

    @torch.no_grad()
    def reset_sampling(self) -> None:
        """The paper's start (head i looks in direction i, point k at k+1 pixels) plus what training adds: offsets and
        weights that depend on the query."""
        directions = head_directions(self.n_heads)
        reach = torch.arange(1, self.n_points + 1, dtype=torch.float32)
        grid = directions[:, None, None] * reach[None, None, :, None]
        grid = grid.expand(self.n_heads, self.n_levels, self.n_points, 2)
        self.sampling_offsets.bias.copy_(grid.flatten())
        nn.init.normal_(self.sampling_offsets.weight, std=0.05)
        nn.init.normal_(self.attention_weights.weight, std=0.05)
        nn.init.xavier_uniform_(self.output_proj.weight, gain=2.0)  # makes up for averaging over the samples

    def forward(self, query: Tensor, reference_points: Tensor, input_flatten: Tensor) -> Tensor:
        """query [N,Lq,C], reference_points [N or 1,Lq,2 or 4] in 0..1, input_flatten [N,S,C] -> [N,Lq,C].

        Of reference points (x, y) offsets are in pixels of the level; of boxes (cx, cy, w, h) they are in halves of
        the box divided by the number of points, the same for all levels.
        """
        n, lq, _ = query.shape
        _, s, c = input_flatten.shape
        value = self.value_proj(input_flatten).view(n, s, self.n_heads, c // self.n_heads)
        offsets = self.sampling_offsets(query).view(n, lq, self.n_heads, self.n_levels, self.n_points, 2)
        weights = self.attention_weights(query).view(n, lq, self.n_heads, self.n_levels * self.n_points)
        weights = F.softmax(weights, -1).view(n, lq, self.n_heads, self.n_levels, self.n_points)
        reference = reference_points[:, :, None, None, None, :]
        if reference_points.shape[-1] == 4:
            locations = reference[..., :2] + offsets / self.n_points * reference[..., 2:] * 0.5
        else:
            locations = reference + offsets / self.offset_normalizer[None, None, None, :, None, :]
        if self.msda == "grid_sample":
            output = ms_deform_attn_grid_sample(value, self.level_shapes, locations, weights)
        else:
            output = self.attend(value, locations, weights)
        return self.output_proj(output)

"""Deformable DETR (Zhu et al., ICLR 2021, arXiv:2010.04159): single stage, no box refinement, fixed image size.

All images of a batch fill the input, so there are no padding masks and every valid ratio is one. Height and width are
fixed when the model is built: level shapes, position embeddings and the encoder's reference points are constants, and
only the batch is dynamic.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.layers import Bottleneck, FrozenBatchNorm2d, ResNet, init_weights, seeded, zero_mean_kaiming_
from models.ms_deform_attn import LevelShapes, Msda, MSDeformAttn


def feature_level_shapes(height: int, width: int, levels: int = 4) -> LevelShapes:
    """(height, width) of strides 8, 16, 32, 64 ...: each stride-2 layer rounds up."""
    for _ in range(2):
        height, width = -(-height // 2), -(-width // 2)
    shapes = []
    for _ in range(levels):
        height, width = -(-height // 2), -(-width // 2)
        shapes.append((height, width))
    return tuple(shapes)


def sine_position_embedding(
    height: int, width: int, num_pos_feats: int, temperature: float = 10000.0
) -> Tensor:
    """Sine embedding of normalised row and column (the paper's "fixed" encoding), [height*width, 2*num_pos_feats]."""
    dim = torch.arange(num_pos_feats, dtype=torch.float32)
    frequency = temperature ** (2 * torch.div(dim, 2, rounding_mode="floor") / num_pos_feats)

    def embed(size: int) -> Tensor:
        position = (torch.arange(size, dtype=torch.float32) + 0.5) / size * 2 * math.pi
        angle = position[:, None] / frequency
        return torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=2).flatten(1)

    rows = embed(height)[:, None].expand(height, width, num_pos_feats)
    columns = embed(width)[None].expand(height, width, num_pos_feats)
    return torch.cat((rows, columns), dim=2).flatten(0, 1)


def encoder_reference_points(level_shapes: LevelShapes) -> Tensor:
    """Centre (x, y) in 0..1 of every pixel of every level, [S,2]."""
    points = []
    for height, width in level_shapes:
        y = (torch.arange(height, dtype=torch.float32) + 0.5) / height
        x = (torch.arange(width, dtype=torch.float32) + 0.5) / width
        grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
        points.append(torch.stack((grid_x, grid_y), dim=-1).flatten(0, 1))
    return torch.cat(points)


def inverse_sigmoid(x: Tensor, eps: float = 1e-5) -> Tensor:
    x = x.clamp(min=0, max=1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


class FeedForward(nn.Module):
    """linear, ReLU, linear with the residual and LayerNorm around them."""

    def __init__(self, d_model: int, d_ffn: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ffn)
        self.linear2 = nn.Linear(d_ffn, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.linear2(F.relu(self.linear1(x))))


class DeformableTransformerEncoderLayer(nn.Module):
    def __init__(self, attention: MSDeformAttn, d_model: int, d_ffn: int) -> None:
        super().__init__()
        self.self_attn = attention
        self.norm1 = nn.LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ffn)

    def forward(self, src: Tensor, pos: Tensor, reference_points: Tensor) -> Tensor:
        src = self.norm1(src + self.self_attn(src + pos, reference_points, src))
        return self.ffn(src)


class DeformableTransformerDecoderLayer(nn.Module):
    def __init__(self, attention: MSDeformAttn, d_model: int, d_ffn: int, n_heads: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.norm2 = nn.LayerNorm(d_model)
        self.cross_attn = attention
        self.norm1 = nn.LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ffn)

    def forward(self, tgt: Tensor, query_pos: Tensor, reference_points: Tensor, src: Tensor) -> Tensor:
        q = k = tgt + query_pos
        tgt = self.norm2(tgt + self.self_attn(q, k, tgt, need_weights=False)[0])
        tgt = self.norm1(tgt + self.cross_attn(tgt + query_pos, reference_points, src))
        return self.ffn(tgt)


class DeformableTransformer(nn.Module):
    """forward: feature maps of all levels [N,C,H,W], query_embed [Q,2C] -> output [N,Q,C], reference points [1,Q,2]."""

    pos: Tensor
    encoder_points: Tensor

    def __init__(
        self,
        level_shapes: LevelShapes,
        d_model: int,
        nhead: int,
        num_encoder_layers: int,
        num_decoder_layers: int,
        dim_feedforward: int,
        n_points: int,
        msda: Msda,
    ) -> None:
        super().__init__()

        def attention() -> MSDeformAttn:
            return MSDeformAttn(d_model, level_shapes, nhead, n_points, msda)

        self.encoder = nn.ModuleList(
            DeformableTransformerEncoderLayer(attention(), d_model, dim_feedforward)
            for _ in range(num_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DeformableTransformerDecoderLayer(attention(), d_model, dim_feedforward, nhead)
            for _ in range(num_decoder_layers)
        )
        self.level_embed = nn.Parameter(torch.empty(len(level_shapes), d_model))
        self.reference_points = nn.Linear(d_model, 2)
        pos = [sine_position_embedding(h, w, d_model // 2) for h, w in level_shapes]
        self.level_sizes = [h * w for h, w in level_shapes]
        self.register_buffer("pos", torch.cat(pos)[None], persistent=False)
        self.register_buffer("encoder_points", encoder_reference_points(level_shapes)[None], persistent=False)

    def forward(self, srcs: list[Tensor], query_embed: Tensor) -> tuple[Tensor, Tensor]:
        src = torch.cat([level.flatten(2).transpose(1, 2) for level in srcs], dim=1)
        level_embed = torch.cat(
            [self.level_embed[i].expand(size, -1) for i, size in enumerate(self.level_sizes)]
        )
        pos = self.pos + level_embed
        for layer in self.encoder:
            src = layer(src, pos, self.encoder_points)

        query_pos, tgt = query_embed.chunk(2, dim=1)
        query_pos = query_pos[None]
        reference_points = self.reference_points(query_pos).sigmoid()
        # A copy and not an expanded view: export compares the view's stride of 2*C with N*C, and would fix N at 2.
        hs = tgt[None].repeat(src.shape[0], 1, 1)
        for layer in self.decoder:
            hs = layer(hs, query_pos, reference_points, src)
        return hs, reference_points


class MLP(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int, num_layers: int) -> None:
        super().__init__()
        dims = [input_dim] + [hidden_dim] * (num_layers - 1) + [output_dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(dims))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


@torch.no_grad()
def reset_transformer_(model: nn.Module) -> None:
    """Initialise every layer so that queries stay apart and activations of order one, as in a trained network."""
    init_weights(model)
    for module in model.modules():
        if isinstance(module, MSDeformAttn):
            module.reset_sampling()
        elif isinstance(module, FeedForward):
            zero_mean_kaiming_(module.linear2.weight)
            module.linear2.weight.mul_(0.5)
        elif isinstance(module, nn.MultiheadAttention):
            # Near-uniform attention would pull all queries together: sharpen it and let it weigh less.
            nn.init.xavier_uniform_(module.in_proj_weight, gain=4.0)
            nn.init.normal_(module.in_proj_bias, std=0.05)
            nn.init.xavier_uniform_(module.out_proj.weight, gain=0.2)


class DeformableDETR(nn.Module):
    """image [N,3,height,width] -> pred_logits [N,Q,num_classes] (before the sigmoid), pred_boxes [N,Q,4] (cx,cy,w,h in
    0..1)."""

    def __init__(
        self,
        height: int = 800,
        width: int = 1333,
        num_classes: int = 91,
        num_queries: int = 300,
        hidden_dim: int = 256,
        nheads: int = 8,
        n_points: int = 4,
        enc_layers: int = 6,
        dec_layers: int = 6,
        dim_feedforward: int = 1024,
        backbone_layers: tuple[int, int, int, int] = (3, 4, 6, 3),
        msda: Msda = "custom_op",
    ) -> None:
        super().__init__()
        self.backbone = ResNet(Bottleneck, backbone_layers, FrozenBatchNorm2d)
        projections = [
            nn.Sequential(nn.Conv2d(channels, hidden_dim, 1), nn.GroupNorm(32, hidden_dim))
            for channels in (512, 1024, 2048)
        ]
        extra = nn.Sequential(
            nn.Conv2d(2048, hidden_dim, 3, stride=2, padding=1), nn.GroupNorm(32, hidden_dim)
        )
        self.input_proj = nn.ModuleList([*projections, extra])
        self.transformer = DeformableTransformer(
            feature_level_shapes(height, width),
            hidden_dim,
            nheads,
            enc_layers,
            dec_layers,
            dim_feedforward,
            n_points,
            msda,
        )
        self.query_embed = nn.Embedding(num_queries, hidden_dim * 2)
        self.class_embed = nn.Linear(hidden_dim, num_classes)
        self.bbox_embed = MLP(hidden_dim, hidden_dim, 4, 3)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        reset_transformer_(self)
        nn.init.normal_(self.transformer.level_embed)
        nn.init.normal_(self.query_embed.weight)
        # Prior of 1% per class (focal loss), boxes that start small.
        nn.init.normal_(self.class_embed.bias, mean=-math.log(99.0), std=0.5)
        box = self.bbox_embed.layers[-1]
        assert isinstance(box, nn.Linear)
        nn.init.xavier_uniform_(box.weight, gain=2.0)
        box.bias.copy_(torch.tensor([0.0, 0.0, -2.0, -2.0]))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        _, c3, c4, c5 = self.backbone(image)
        srcs = [proj(c) for proj, c in zip(self.input_proj, (c3, c4, c5, c5), strict=True)]
        hs, reference_points = self.transformer(srcs, self.query_embed.weight)
        pred_logits = self.class_embed(hs)
        delta = self.bbox_embed(hs)
        center = delta[..., :2] + inverse_sigmoid(reference_points)
        pred_boxes = torch.cat((center, delta[..., 2:]), dim=-1).sigmoid()
        return pred_logits, pred_boxes


def build_deformable_detr(seed: int = 0, **sizes: object) -> DeformableDETR:
    """DeformableDETR(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = DeformableDETR(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

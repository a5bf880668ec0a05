"""The decoder of DINO (Zhang et al., ICLR 2023, arXiv:2203.03605): anchor boxes as queries, refined by every layer.

The encoder's memory and the boxes that query selection found are inputs. Height and width of the image are fixed when
the model is built, and all images fill it: level shapes are constants, every valid ratio is one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.deformable_detr import (
    MLP,
    DeformableTransformerDecoderLayer,
    feature_level_shapes,
    inverse_sigmoid,
    reset_transformer_,
)
from models.layers import seeded
from models.ms_deform_attn import MSDeformAttn
from models.photo import photo_batch, photo_tokens


class BoxEmbedding(nn.Module):
    """Sine embedding of boxes (cx, cy, w, h) in 0..1, [N,Q,4] -> [N,Q,4*features] (DAB-DETR, arXiv:2201.12329)."""

    frequency: Tensor

    def __init__(self, features: int, temperature: float = 10000.0) -> None:
        super().__init__()
        exponent = torch.arange(0, features, 2, dtype=torch.float32) / features
        self.register_buffer("frequency", 2 * math.pi / temperature**exponent, persistent=False)

    def forward(self, boxes: Tensor) -> Tensor:
        angle = boxes[..., None] * self.frequency
        # [N,Q,4,features/2,2] -> [N,Q,4*features]: sine and cosine of a frequency are neighbours.
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(2)


class DinoDecoder(nn.Module):
    """memory [N,S,C] of all levels, reference_boxes [N,Q,4] (cx,cy,w,h in 0..1) -> pred_logits [N,Q,num_classes] (before
    the sigmoid), pred_boxes [N,Q,4]."""

    def __init__(
        self,
        height: int = 800,
        width: int = 1333,
        num_classes: int = 91,
        num_queries: int = 900,
        hidden_dim: int = 256,
        nheads: int = 8,
        n_points: int = 4,
        dec_layers: int = 6,
        dim_feedforward: int = 2048,
    ) -> None:
        super().__init__()
        shapes = feature_level_shapes(height, width)
        self.layers = nn.ModuleList(
            DeformableTransformerDecoderLayer(
                MSDeformAttn(hidden_dim, shapes, nheads, n_points, "custom_op"),
                hidden_dim,
                dim_feedforward,
                nheads,
            )
            for _ in range(dec_layers)
        )
        self.content = nn.Embedding(num_queries, hidden_dim)
        self.box_embedding = BoxEmbedding(hidden_dim // 2)
        self.query_position = MLP(2 * hidden_dim, hidden_dim, hidden_dim, 2)
        self.norm = nn.LayerNorm(hidden_dim)
        # One head for the boxes of all layers, as DINO's released configurations have it.
        self.bbox_embed = MLP(hidden_dim, hidden_dim, 4, 3)
        self.class_embed = nn.Linear(hidden_dim, num_classes)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        reset_transformer_(self)
        nn.init.normal_(self.content.weight)
        # Prior of 1% per class (focal loss); a layer resizes a box by about a sixth.
        nn.init.normal_(self.class_embed.bias, mean=-math.log(99.0), std=0.5)
        box = self.bbox_embed.layers[-1]
        assert isinstance(box, nn.Linear)
        nn.init.xavier_uniform_(box.weight, gain=0.2)
        nn.init.zeros_(box.bias)

    def forward(self, memory: Tensor, reference_boxes: Tensor) -> tuple[Tensor, Tensor]:
        boxes = reference_boxes
        hs = self.content.weight[None].repeat(memory.shape[0], 1, 1)
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            hs = layer(hs, self.query_position(self.box_embedding(boxes)), boxes, memory)
            if index < last:
                boxes = torch.sigmoid(self.bbox_embed(hs) + inverse_sigmoid(boxes))
        hs = self.norm(hs)
        return self.class_embed(hs), torch.sigmoid(self.bbox_embed(hs) + inverse_sigmoid(boxes))


def example_boxes(batch: int, queries: int) -> Tensor:
    """[batch,queries,4]: centres anywhere in the image, width and height from 3% to 50% of it."""
    generator = torch.Generator().manual_seed(900)
    centres = torch.rand(batch, queries, 2, generator=generator)
    sizes = torch.exp(
        torch.empty(batch, queries, 2).uniform_(math.log(0.03), math.log(0.5), generator=generator)
    )
    return torch.cat((centres, sizes), dim=-1)


def dino_inputs(
    batch: int, height: int, width: int, num_queries: int = 900, hidden_dim: int = 256
) -> dict[str, Tensor]:
    memory = photo_tokens(photo_batch(height, width, batch), feature_level_shapes(height, width), hidden_dim)
    return {"memory": memory, "reference_boxes": example_boxes(batch, num_queries)}


def build_dino_decoder(seed: int = 0, **sizes: object) -> DinoDecoder:
    """DinoDecoder(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = DinoDecoder(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

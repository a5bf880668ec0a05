"""The decoder of Sparse4D v3 (arXiv:2311.11722) as published for nuScenes: 900 boxes that gather features of six cameras
around themselves, layer by layer. It is that of the first frame of a sequence, where no instances of earlier frames are
kept: the attention to those, of every layer but the first, is to the frame's own."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from models.bevformer_layer import CAMERAS
from models.foreign import deformable_aggregation
from models.layers import init_weights, seeded
from models.photo import photo_batch, photo_tokens

STRIDES = (4, 8, 16, 32)
FIXED_POINTS = ((0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
"""The middle of a box, and to which sides of it the other points lie, each at 0.45 of the box's size."""

LEARNED_POINTS = 6
BOX = 11
"""Numbers of a box: x, y, z, logarithms of width, length and height, sine and cosine of yaw, and velocity in x, y, z."""

INTERVAL = 0.5
"""Seconds between frames; a layer predicts how far a box moves in that time."""


def level_shapes(height: int, width: int) -> tuple[tuple[int, int], ...]:
    return tuple((math.ceil(height / stride), math.ceil(width / stride)) for stride in STRIDES)


def layers_of(*widths: int, linears: int = 1) -> list[nn.Module]:
    """Linear layers with ReLU, and a normalisation after each `linears` of them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        for number in range(linears):
            layers += [nn.Linear(after if number else before, after), nn.ReLU()]
        layers.append(nn.LayerNorm(after))
    return layers


class BoxEncoder(nn.Module):
    """boxes [N,A,11] -> [N,A,C]: position, size, yaw and velocity, each by itself in a part of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = (channels // 2, channels // 8, channels // 8, channels // 4)
        self.parts = nn.ModuleList(
            nn.Sequential(*layers_of(given, *[width] * 4))
            for given, width in zip((3, 3, 2, 3), widths, strict=True)
        )

    def forward(self, boxes: Tensor) -> Tensor:
        given = boxes.split((3, 3, 2, 3), dim=-1)
        return torch.cat([part(x) for part, x in zip(self.parts, given, strict=True)], dim=-1)


class Aggregation(nn.Module):
    """Instances [N,A,C], their boxes and embeddings, and the cameras' features -> [N,A,2C]: sums of features, instances."""

    fixed: Tensor

    def __init__(self, shapes: tuple[tuple[int, int], ...], channels: int, groups: int) -> None:
        super().__init__()
        self.shapes, self.groups = shapes, groups
        self.points = len(FIXED_POINTS) + LEARNED_POINTS
        self.register_buffer(
            "fixed", 0.45 * torch.tensor(FIXED_POINTS, dtype=torch.float32), persistent=False
        )
        self.learned = nn.Linear(channels, LEARNED_POINTS * 3)
        self.camera = nn.Sequential(*layers_of(12, channels, channels))
        self.weights = nn.Linear(channels, groups * len(shapes) * self.points)
        self.leave = nn.Linear(channels, channels)

    def key_points(self, x: Tensor, boxes: Tensor) -> Tensor:
        """[N,A,P,3] within the boxes, turned by their yaw."""
        learned = self.learned(x).unflatten(2, (LEARNED_POINTS, 3)).sigmoid() - 0.5
        fixed = self.fixed.expand(*x.shape[:2], -1, -1)
        points = torch.cat((fixed, learned), dim=2) * boxes[:, :, None, 3:6].exp()
        along, across, up = points.unbind(-1)
        sine, cosine = boxes[:, :, None, 6:8].unbind(-1)
        turned = torch.stack((along * cosine - across * sine, along * sine + across * cosine, up), dim=-1)
        return turned + boxes[:, :, None, :3]

    def forward(
        self, x: Tensor, boxes: Tensor, embedding: Tensor, features: Tensor, lidar2img: Tensor, sizes: Tensor
    ) -> Tensor:
        cameras = lidar2img.shape[1]
        seen = (x + embedding)[:, :, None] + self.camera(lidar2img[:, :, :3].flatten(2))[:, None]
        weights = self.weights(seen).unflatten(3, (-1, self.groups)).flatten(2, 3).softmax(2)
        weights = weights.unflatten(2, (cameras, len(self.shapes), self.points)).permute(0, 1, 4, 2, 3, 5)
        points = self.key_points(x, boxes)
        found = deformable_aggregation(features, self.shapes, points, lidar2img, sizes, weights)
        return torch.cat((self.leave(found), x), dim=-1)


class FeedForward(nn.Module):
    """[N,A,2C] -> [N,A,C] by way of 4C, with a linear shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * channels)
        self.layers = nn.Sequential(
            nn.Linear(2 * channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, channels)
        )
        self.shortcut = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.shortcut(x) + self.layers(x)


class DecoderLayer(nn.Module):
    """Instances [N,A,C], boxes and their embeddings -> instances and boxes; the first layer does without attention."""

    moves: Tensor

    def __init__(self, shapes: tuple[tuple[int, int], ...], channels: int, groups: int, first: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(
            nn.MultiheadAttention(2 * channels, groups, batch_first=True) for _ in range(0 if first else 2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(1 if first else 2))
        self.aggregation = Aggregation(shapes, channels, groups)
        self.feed_forward = FeedForward(channels)
        self.refine = nn.Sequential(
            *layers_of(channels, channels, channels, linears=2), nn.Linear(channels, BOX)
        )
        self.scale = nn.Parameter(torch.ones(BOX))
        self.register_buffer("moves", torch.tensor([1.0] * 8 + [1 / INTERVAL] * 3), persistent=False)

    def forward(
        self,
        x: Tensor,
        boxes: Tensor,
        embedding: Tensor,
        before: nn.Linear,
        after: nn.Linear,
        views: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """before, after: from C to 2C channels and back, the same in all layers. views: what the head is given."""
        for number, attention in enumerate(self.attentions):
            both = torch.cat((x, embedding), dim=-1)
            values = before(x) if number else both
            x = after(both + attention(both, both, values, need_weights=False)[0])
        if len(self.attentions):
            x = self.norms[1](x)
        x = self.norms[0](self.feed_forward(self.aggregation(x, boxes, embedding, *views)))
        return x, boxes + self.refine(x + embedding) * (self.scale * self.moves)


class Sparse4DHead(nn.Module):
    """features [N,F,C], pixels of each camera's levels, row by row; lidar2img [N,6,4,4]; image_sizes [N,6,2], width and
    height in pixels -> of A boxes the logits [N,A,num_classes], the boxes [N,A,11] and their quality [N,A,2]."""

    def __init__(
        self,
        height: int = 256,
        width: int = 704,
        channels: int = 256,
        groups: int = 8,
        depth: int = 6,
        anchors: int = 900,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        shapes = level_shapes(height, width)
        self.anchors = nn.Parameter(torch.empty(anchors, BOX))
        self.instances = nn.Parameter(torch.empty(anchors, channels))
        self.encoder = BoxEncoder(channels)
        self.before = nn.Linear(channels, 2 * channels, bias=False)
        self.after = nn.Linear(2 * channels, channels, bias=False)
        self.layers = nn.ModuleList(
            DecoderLayer(shapes, channels, groups, first=number == 0) for number in range(depth)
        )
        self.classes = nn.Sequential(
            *layers_of(channels, channels, channels), nn.Linear(channels, num_classes)
        )
        self.quality = nn.Sequential(*layers_of(channels, channels, channels), nn.Linear(channels, 2))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Boxes of cars' and people's sizes within 55 m; a layer moves them by tenths of a metre."""
        init_weights(self)
        count = len(self.anchors)
        around, reach = 2 * torch.pi * torch.rand(count), 2 + 53 * torch.rand(count)
        self.anchors[:, :3] = torch.stack((reach * around.cos(), reach * around.sin(), torch.randn(count)), 1)
        self.anchors[:, 3:6] = torch.empty(count, 3).uniform_(math.log(0.5), math.log(5.0))
        yaw = 2 * torch.pi * torch.rand(count)
        self.anchors[:, 6:] = torch.stack((yaw.sin(), yaw.cos(), *torch.randn(3, count)), 1)
        nn.init.normal_(self.instances)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.out_features == BOX:
                nn.init.xavier_uniform_(module.weight, gain=0.2)

    def forward(
        self, features: Tensor, lidar2img: Tensor, image_sizes: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        boxes, x = (given.expand(features.shape[0], -1, -1) for given in (self.anchors, self.instances))
        for layer in self.layers:
            embedding = self.encoder(boxes)
            x, boxes = layer(x, boxes, embedding, self.before, self.after, (features, lidar2img, image_sizes))
        return self.classes(x), boxes, self.quality(x + embedding)


def sparse4d_inputs(batch: int, height: int, width: int, channels: int = 256) -> dict[str, Tensor]:
    """The photograph, turned a sixth further for each camera, as features; a ring of cameras, each set turned a little."""
    photos = photo_batch(height, width, batch)
    views = [photos.roll(k * width // len(CAMERAS), dims=3) for k in range(len(CAMERAS))]
    features = [photo_tokens(view, level_shapes(height, width), channels) for view in views]
    cameras = []
    for i in range(batch):
        for degrees, view in CAMERAS:
            yaw, focal = math.radians(degrees + 1.5 * i), width / 2 / math.tan(math.radians(view) / 2)
            ahead = torch.tensor([math.cos(yaw), math.sin(yaw), 0, -1.0])
            right = torch.tensor([math.sin(yaw), -math.cos(yaw), 0, 0])
            down = torch.tensor([0, 0, -1.0, 1.5])
            u, v = focal * right + width / 2 * ahead, focal * down + height / 2 * ahead
            cameras.append(torch.stack((u, v, ahead, torch.tensor([0, 0, 0, 1.0]))))
    sizes = torch.tensor([float(width), float(height)])
    return {
        "features": torch.cat(features, dim=1),
        "lidar2img": torch.stack(cameras).unflatten(0, (batch, -1)),
        "image_sizes": sizes.repeat(batch, len(CAMERAS), 1),
    }


def build_sparse4d_head(seed: int = 0, **sizes: int) -> Sparse4DHead:
    """Sparse4DHead(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = Sparse4DHead(**sizes)
        model.reset_parameters()
    return model.eval()

"""PointNet++ (arXiv:1706.02413) that classifies objects of ModelNet40, single scale as published: two set abstractions with
farthest point sampling and balls, one of the whole cloud, and three linear layers."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from models.foreign import ball_query, furthest_point_sampling, grouping_operation
from models.layers import init_weights, seeded


def shared_layers(*widths: int) -> nn.Sequential:
    """The same layers for each point of [N,C,points,places]."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class SetAbstraction(nn.Module):
    """points [N,P,3] and their features [N,C,P], or none -> `middles` points and the largest of the features around each."""

    def __init__(self, middles: int, radius: float, places: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.middles, self.radius, self.places = middles, radius, places
        self.layers = shared_layers(widths[0] + 3, *widths[1:])

    def forward(self, points: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        columns = points.transpose(1, 2).contiguous()
        chosen = furthest_point_sampling(points, self.middles)
        middles = grouping_operation(columns, chosen[:, :, None])[:, :, :, 0].transpose(1, 2).contiguous()
        index = ball_query(middles, points, self.radius, self.places)
        grouped = grouping_operation(columns, index) - middles.transpose(1, 2)[..., None]
        if features is not None:
            grouped = torch.cat((grouped, grouping_operation(features, index)), dim=1)
        return middles, self.layers(grouped).amax(3)


class PointNet2(nn.Module):
    """points [N,P,3] within the unit ball -> logits [N,num_classes]."""

    def __init__(
        self, middles: tuple[int, int] = (512, 128), channels: int = 64, num_classes: int = 40
    ) -> None:
        super().__init__()
        c = channels
        self.near = SetAbstraction(middles[0], 0.2, 32, (0, c, c, 2 * c))
        self.wide = SetAbstraction(middles[1], 0.4, 64, (2 * c, 2 * c, 2 * c, 4 * c))
        self.whole = shared_layers(4 * c + 3, 4 * c, 8 * c, 16 * c)
        self.head = nn.Sequential(
            *(nn.Linear(16 * c, 8 * c), nn.ReLU(), nn.Linear(8 * c, 4 * c), nn.ReLU()),
            nn.Linear(4 * c, num_classes),
        )

    def forward(self, points: Tensor) -> tuple[Tensor]:
        middles, features = self.near(points, None)
        middles, features = self.wide(middles, features)
        features = torch.cat((middles.transpose(1, 2), features), dim=1)[:, :, None]
        return (self.head(self.whole(features).amax((2, 3))),)


def object_points(batch: int, points: int, _width: int) -> dict[str, Tensor]:
    """Clouds [batch,points,3] on the surfaces of a torus, which is wider from one to the next and turned at random."""
    with seeded(7):
        clouds = []
        for number in range(batch):
            around, across = torch.rand(2, points) * 2 * torch.pi
            thickness = 0.15 + 0.03 * (number % 8)
            reach = 0.6 + thickness * across.cos()
            torus = torch.stack((reach * around.cos(), reach * around.sin(), thickness * across.sin()), dim=1)
            clouds.append(torus @ torch.linalg.qr(torch.randn(3, 3))[0])
    return {"points": torch.stack(clouds)}


def build_pointnet2(seed: int = 0, **sizes: object) -> PointNet2:
    """PointNet2(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = PointNet2(**sizes)  # type: ignore[arg-type]
        init_weights(model)
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                # With their mean: largest features of clouds are much alike, and what is left of them without it is noise.
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return model.eval()

"""A YOLO detector with its non-maximum suppression inside: anchor-free heads on three levels, as YOLOX (arXiv:2107.08430).

Boxes are decoded in the graph and go to EfficientNMS_TRT, as exporters for TensorRT write it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.foreign import efficient_nms
from models.layers import init_weights, scale_weight_, seeded

STRIDES = (8, 16, 32)


def conv_bn_silu(in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.SiLU(),
    )


def cell_centres(height: int, width: int) -> tuple[Tensor, Tensor]:
    """(x, y) of the cells of all levels and the side of each, in pixels: [B, 2] and [B, 1]."""
    centres, sides = [], []
    for stride in STRIDES:
        y, x = torch.meshgrid(
            torch.arange(height // stride) + 0.5, torch.arange(width // stride) + 0.5, indexing="ij"
        )
        centres.append(torch.stack((x, y), dim=-1).reshape(-1, 2) * stride)
        sides.append(torch.full((x.numel(), 1), float(stride)))
    return torch.cat(centres), torch.cat(sides)


class YOLO(nn.Module):
    """image [N,3,height,width], both multiples of 32 -> num_detections [N,1] (int32), and of the best `detections`
    boxes [N,K,4] (x1, y1, x2, y2 in units of the image), scores [N,K] and classes [N,K] (int32), the best first."""

    centres: Tensor
    sides: Tensor

    def __init__(
        self,
        height: int = 640,
        width: int = 640,
        num_classes: int = 80,
        channels: int = 32,
        detections: int = 100,
    ) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.num_classes, self.detections = num_classes, detections
        c = channels
        self.stem = nn.Sequential(conv_bn_silu(3, c // 2, stride=2), conv_bn_silu(c // 2, c, stride=2))
        stages, laterals, heads = [], [], []
        for level in range(len(STRIDES)):
            stages.append(
                nn.Sequential(
                    conv_bn_silu(c << level, 2 * c << level, stride=2),
                    conv_bn_silu(2 * c << level, 2 * c << level),
                )
            )
            laterals.append(nn.Conv2d(2 * c << level, 2 * c, 1))
            # Group normalisation as in FCOS: scores spread alike, whatever the image and the size.
            norm = nn.GroupNorm(4, 2 * c)
            features = nn.Sequential(nn.Conv2d(2 * c, 2 * c, 3, padding=1), norm, nn.SiLU())
            heads.append(nn.Sequential(features, nn.Conv2d(2 * c, 4 + num_classes, 1)))
        self.stages, self.laterals = nn.ModuleList(stages), nn.ModuleList(laterals)
        self.heads = nn.ModuleList(heads)
        centres, sides = cell_centres(height, width)
        self.register_buffer("centres", centres, persistent=False)
        self.register_buffer("sides", sides, persistent=False)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        for head in self.heads:
            assert isinstance(head, nn.Sequential)
            last = head[-1]
            assert isinstance(last, nn.Conv2d) and last.bias is not None
            # Boxes of about two cells, and scores that are rarely high, but often enough to fill every row.
            scale_weight_(last, 1.3)
            last.weight[:4].mul_(0.3)
            nn.init.zeros_(last.bias[:4])
            nn.init.normal_(last.bias[4:], mean=-5.0, std=0.5)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x = self.stem(image)
        maps = []
        for stage, lateral in zip(self.stages, self.laterals, strict=True):
            x = stage(x)
            maps.append(lateral(x))
        for level in (1, 0):
            maps[level] = maps[level] + F.interpolate(maps[level + 1], scale_factor=2.0, mode="nearest")
        found = [head(level).flatten(2) for head, level in zip(self.heads, maps, strict=True)]
        distances, logits = torch.cat(found, dim=2).transpose(1, 2).split((4, self.num_classes), dim=2)
        near, far = (distances.clamp(max=4.0).exp() * self.sides).chunk(2, dim=2)
        corners = torch.cat((self.centres - near, self.centres + far), dim=2)
        size = corners.new_tensor([self.width, self.height, self.width, self.height])
        return efficient_nms(
            corners / size,
            logits.sigmoid(),
            score_threshold=0.1,
            iou_threshold=0.5,
            rows=self.detections,
        )


def build_yolo_nms(seed: int = 0, **sizes: object) -> YOLO:
    """YOLO(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = YOLO(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

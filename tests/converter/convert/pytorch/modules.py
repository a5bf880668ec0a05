"""Modules with foreign operators, as in detection and tracking networks."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import tests.torchvision_double  # noqa: F401  defines torch.ops.torchvision where torchvision is not there

Detections = namedtuple("Detections", "boxes scores features")


class DetectorHead(nn.Module):
    """The second half of a two-stage detector: boxes that overlap no better one, and what the feature map has in each."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.classes = nn.Linear(8 * 2 * 2, 3)

    def forward(self, image: Any, boxes: Any, scores: Any, threshold: float = 0.5) -> Any:
        keep = torch.ops.torchvision.nms(boxes, scores, threshold)
        kept = boxes[keep]
        rois = torch.cat([torch.zeros_like(kept[:, :1]), kept], dim=1)
        pooled = torch.ops.torchvision.roi_align(self.backbone(image), rois, 0.5, 2, 2, 2, True)
        return Detections(kept, scores[keep], self.classes(pooled.flatten(1)))


def boxes(count: int, seed: int = 3, size: float = 14.0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, generator=generator) * size * 0.6
    return torch.cat([low, low + torch.rand(count, 2, generator=generator) * size * 0.4 + 0.5], dim=1)


def detector_head() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    torch.manual_seed(1)
    n = Dim("n", min=1, max=50)
    shapes = {"image": None, "boxes": {0: n}, "scores": {0: n}, "threshold": None}
    example = (
        torch.rand(1, 3, 16, 16),
        boxes(12),
        torch.rand(12, generator=torch.Generator().manual_seed(5)),
    )
    return DetectorHead().eval(), example, {"threshold": 0.4}, shapes


class Aligned(nn.Module):
    """Deformable convolutions with a mask and without, and position-sensitive pooling of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Conv2d(4, 18, 3, padding=1)
        self.mask = nn.Conv2d(4, 9, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(8, 4, 3, 3) * 0.2)
        self.bias = nn.Parameter(torch.randn(8))
        self.second = nn.Parameter(torch.randn(8, 4, 3, 3) * 0.2)

    def forward(self, x: Any, rois: Any) -> Any:
        offset, mask = self.offset(x), torch.sigmoid(self.mask(x))
        numbers = (1, 1, 1, 1, 1, 1)
        masked = torch.ops.torchvision.deform_conv2d(
            x, self.weight, offset, mask, self.bias, *numbers, 1, 1, True
        )
        none = torch.zeros(x.shape[0], 1, dtype=x.dtype)
        plain = torch.ops.torchvision.deform_conv2d(
            masked, self.second, offset, none, torch.zeros(8), *numbers, 2, 1, False
        )
        pooled, _ = torch.ops.torchvision.ps_roi_align(plain, rois, 1.0, 2, 2, 2)
        return {"map": plain, "pooled": [pooled]}


def aligned() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    torch.manual_seed(2)
    batch, k = Dim("batch", min=1, max=4), Dim("k", min=1, max=8)
    rois = torch.cat([torch.tensor([[0.0], [1.0], [1.0]]), boxes(3, size=6.0)], dim=1)
    return Aligned(), (torch.rand(2, 4, 6, 7), rois), {}, ({0: batch}, {0: k})


def made_of(forward: Callable[..., Any], name: str = "Made") -> nn.Module:
    """A module of one function of itself and its inputs."""
    module: nn.Module = type(name, (nn.Module,), {"forward": forward})()
    return module


def poses() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """Inverses of matrices, which TensorRT lacks and PyTorch has."""
    x = torch.eye(4).repeat(3, 1, 1) * 2 + torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(0))
    return made_of(lambda self, x: torch.linalg.inv(x) @ x.mT), (x,), {}, ({0: Dim("views", min=1, max=6)},)

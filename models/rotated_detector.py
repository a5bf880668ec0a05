"""A two-stage detector of rotated boxes, as Oriented R-CNN (arXiv:2108.05699): proposals, region features, suppression.

Boxes are centre x and y, width, height, all in pixels, and an angle in radians that turns clockwise.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.foreign import multilevel_rotated_roi_align
from models.layers import BasicBlock, ResNet, init_weights, scale_weight_, seeded

STRIDES = (4, 8, 16, 32)
ANCHOR = 4
"""Side of a cell's anchor, in cells."""

REGION = 7
"""Side of the features of a region."""


def decode(boxes: Tensor, deltas: Tensor) -> Tensor:
    """Boxes [..., 5] moved by deltas [..., 5] along their own axes, in units of their sides (RoI Transformer,
    arXiv:1812.00155)."""
    dx, dy, dw, dh, da = deltas.unbind(-1)
    x, y, w, h, a = boxes.unbind(-1)
    right, down, cos, sin = dx * w, dy * h, a.cos(), a.sin()
    grown = torch.stack((dw, dh), dim=-1).clamp(-2.0, 2.0).exp()
    centre = torch.stack((x + right * cos - down * sin, y + right * sin + down * cos), dim=-1)
    return torch.cat((centre, torch.stack((w, h), dim=-1) * grown, (a + da)[..., None]), dim=-1)


class RotatedDetector(nn.Module):
    """image [N,3,height,width], both multiples of 32 -> of the best `detections` boxes [N,K,5], lengths in units of the
    image's width, scores [N,K] and classes [N,K] (int32), the best first; zeros behind the last detection."""

    anchors: Tensor

    def __init__(
        self,
        height: int = 512,
        width: int = 512,
        num_classes: int = 15,
        channels: int = 128,
        hidden: int = 512,
        proposals: int = 200,
        detections: int = 50,
    ) -> None:
        super().__init__()
        self.width, self.proposals, self.detections = width, proposals, detections
        self.backbone = ResNet(BasicBlock, (1, 1, 1, 1))
        self.laterals = nn.ModuleList(nn.Conv2d(64 << level, channels, 1) for level in range(4))
        self.norms = nn.ModuleList(nn.GroupNorm(8, channels) for _ in STRIDES)
        # Proposals come of the two levels in the middle: objectness and five deltas.
        self.propose = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, 6, 1)
        )
        self.fc = nn.Sequential(
            nn.Linear(channels * REGION * REGION, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.classify = nn.Linear(hidden, num_classes + 1)  # the last class is background
        self.refine = nn.Linear(hidden, 5)
        anchors = []
        for stride in STRIDES[1:3]:
            cells = [torch.arange(size // stride) + 0.5 for size in (height, width)]
            y, x = (c.flatten() * stride for c in torch.meshgrid(*cells, indexing="ij"))
            side = torch.full_like(x, float(ANCHOR * stride))
            anchors.append(torch.stack((x, y, side, 0.5 * side, torch.zeros_like(x)), dim=1))
        self.register_buffer("anchors", torch.cat(anchors), persistent=False)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        last = self.propose[-1]
        assert isinstance(last, nn.Conv2d)
        last.weight[1:].mul_(0.5)
        scale_weight_(self.refine, 0.5)
        scale_weight_(self.classify, 3.5)
        # Half of what remains after all other classes is background.
        self.classify.bias[-1] = math.log(self.classify.out_features - 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        maps = [lateral(c) for lateral, c in zip(self.laterals, self.backbone(image), strict=True)]
        for level in (2, 1, 0):
            maps[level] = maps[level] + F.interpolate(maps[level + 1], scale_factor=2.0, mode="nearest")
        maps = [norm(level) for norm, level in zip(self.norms, maps, strict=True)]

        found = torch.cat([self.propose(level).flatten(2) for level in maps[1:3]], dim=2).transpose(1, 2)
        _, best = found[..., 0].topk(self.proposals, dim=1)
        deltas = found.gather(1, best[..., None].expand(-1, -1, 6))[..., 1:]
        regions = decode(self.anchors[best], deltas)

        batch = image.shape[0]
        number = torch.arange(batch, device=image.device, dtype=image.dtype)
        rois = torch.cat((number[:, None, None].expand(-1, self.proposals, 1), regions), dim=2)
        pooled = multilevel_rotated_roi_align(rois.flatten(0, 1), maps, size=REGION, strides=STRIDES)
        hidden = self.fc(pooled.flatten(1)).unflatten(0, (batch, self.proposals))
        scores = self.classify(hidden).softmax(-1)[..., :-1].transpose(1, 2)
        return self.select(decode(regions, self.refine(hidden)), scores)

    def select(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of boxes [N,B,5] and scores [N,C,B] the best that overlap no better one of their class, as forward says.

        As mmdeploy writes it (mmcv/ops/nms_rotated.py): the suppression says which are left of all images, and each
        image takes the best of its own.
        """
        selected, _ = torch.ops.trtsmith.rotated_box_selection(
            boxes.contiguous(), scores.contiguous(), iou_threshold=0.3, score_threshold=0.05
        )
        image, label, box = selected.unbind(1)
        number = torch.arange(boxes.shape[0], device=boxes.device)
        own = torch.where(image == number[:, None], scores[image, label, box], 0.0)
        # Rows of zeros, so that there are enough for every image.
        spare = own.new_zeros(self.detections)
        padded = torch.cat((own, spare.expand(boxes.shape[0], -1)), dim=1)
        best, row = padded.topk(self.detections, dim=1)
        rows = torch.cat((boxes[image, box], spare[:, None].expand(-1, 5)))
        labels = torch.cat((label.int(), spare.int()))
        unit = boxes.new_tensor([self.width] * 4 + [1.0])
        real = best > 0
        return torch.where(real[..., None], rows[row] / unit, 0.0), best, torch.where(real, labels[row], 0)


def build_rotated_detector(seed: int = 0, **sizes: object) -> RotatedDetector:
    """RotatedDetector(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = RotatedDetector(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

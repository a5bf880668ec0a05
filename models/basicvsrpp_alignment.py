"""Second-order deformable alignment of BasicVSR++ (Chan et al., CVPR 2022, arXiv:2104.13371, section 3.2).

Features of the last two frames are brought to the present one: warped by optical flow they say by how much each tap of a
deformable convolution over the unwarped features departs from the flow.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith
from models.layers import init_offsets_, init_weights, seeded, zero_mean_kaiming_
from models.photo import photo_batch, photo_features


class FlowWarp(nn.Module):
    """x [N,C,H,W] read at every pixel plus its flow [N,2,H,W], (dx, dy) in pixels; zero outside."""

    pixels: Tensor
    scale: Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
        self.register_buffer("pixels", torch.stack((x, y), dim=-1)[None], persistent=False)
        self.register_buffer("scale", 2 / torch.tensor([width - 1.0, height - 1.0]), persistent=False)

    def forward(self, x: Tensor, flow: Tensor) -> Tensor:
        grid = (self.pixels + flow.permute(0, 2, 3, 1)) * self.scale - 1
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


class SecondOrderDeformableAlignment(nn.Module):
    """current, previous, second_previous [N,C,H,W]; flow [N,2,H,W] from the present frame to the last one, previous_flow
    from that to the one before, (dx, dy) in pixels -> aligned [N,C,H,W]."""

    def __init__(
        self,
        height: int = 180,
        width: int = 320,
        channels: int = 64,
        deform_groups: int = 16,
        max_residue: float = 10.0,
    ) -> None:
        super().__init__()
        self.deform_groups = deform_groups
        self.max_residue = max_residue
        self.taps = 9
        self.warp = FlowWarp(height, width)
        layers: list[nn.Module] = []
        inputs = 3 * channels + 4
        for _ in range(3):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.LeakyReLU(0.1)]
            inputs = channels
        layers.append(nn.Conv2d(channels, 3 * self.taps * deform_groups, 3, padding=1))
        self.conv_offset = nn.Sequential(*layers)
        self.weight = nn.Parameter(torch.empty(channels, 2 * channels, 3, 3))
        self.bias = nn.Parameter(torch.empty(channels))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Residual offsets of about three pixels; training starts at zero, which would hide errors."""
        init_weights(self)
        last = self.conv_offset[-1]
        assert isinstance(last, nn.Conv2d)
        init_offsets_(last, 2 * self.taps * self.deform_groups, 3 / self.max_residue)
        zero_mean_kaiming_(self.weight)
        self.weight.mul_(2.0)  # makes up for the mask and for the smoothing of bilinear samples
        nn.init.normal_(self.bias, std=0.05)

    def forward(
        self, current: Tensor, previous: Tensor, second_previous: Tensor, flow: Tensor, previous_flow: Tensor
    ) -> tuple[Tensor]:
        second_flow = flow + self.warp(previous_flow, flow)
        condition = (
            self.warp(previous, flow),
            current,
            self.warp(second_previous, second_flow),
            flow,
            second_flow,
        )
        y, x, mask = torch.chunk(self.conv_offset(torch.cat(condition, dim=1)), 3, dim=1)
        residues = self.max_residue * torch.tanh(torch.cat((y, x), dim=1))
        # Offsets are (dy, dx) tap by tap, group by group: the first half of the groups reads `previous`.
        first, second = torch.chunk(residues, 2, dim=1)
        pairs = self.taps * self.deform_groups // 2
        offset = torch.cat(
            (
                first + flow.flip(1).repeat(1, pairs, 1, 1),
                second + second_flow.flip(1).repeat(1, pairs, 1, 1),
            ),
            dim=1,
        )
        both = torch.cat((previous, second_previous), dim=1)
        aligned = torch.ops.trtsmith.modulated_deformable_convolution(
            both, offset, torch.sigmoid(mask), self.weight, self.bias, [1, 1], [1, 1, 1, 1], [1, 1], 1,
            self.deform_groups,
        )  # fmt: skip
        return (aligned,)


def example_flow(batch: int, height: int, width: int, seed: int) -> Tensor:
    """[batch,2,height,width]: smooth motion of a few pixels, another for each set."""
    coarse = torch.randn(batch, 2, 4, 6, generator=torch.Generator().manual_seed(seed))
    return 2.5 * F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=True)


def alignment_inputs(batch: int, height: int, width: int, channels: int = 64) -> dict[str, Tensor]:
    """Features of the photograph, which moves by two pixels a frame, and flows."""
    frame = photo_batch(height, width, batch)
    frames = [frame.roll((2 * age, -age), dims=(2, 3)) for age in range(3)]
    features = [photo_features(image, [(height, width)], channels)[0] for image in frames]
    return {
        **dict(zip(("current", "previous", "second_previous"), features, strict=True)),
        "flow": example_flow(batch, height, width, 1),
        "previous_flow": example_flow(batch, height, width, 2),
    }


def build_basicvsrpp_alignment(seed: int = 0, **sizes: object) -> SecondOrderDeformableAlignment:
    """SecondOrderDeformableAlignment(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = SecondOrderDeformableAlignment(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

"""CenterNet (Zhou et al., 2019, arXiv:1904.07850) with the ResNet-18 trunk and DCNv2 upsampling stages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith
from models.layers import (
    BasicBlock,
    ResNet,
    init_offsets_,
    init_weights,
    scale_weight_,
    seeded,
    zero_mean_kaiming_,
)


class DCN(nn.Module):
    """Modulated deformable convolution (Zhu et al., 2018, arXiv:1811.11168) that predicts its own offsets and mask."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3, padding: int = 1) -> None:
        super().__init__()
        self.padding = padding
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels))
        taps = kernel_size * kernel_size
        self.conv_offset_mask = nn.Conv2d(in_channels, 3 * taps, kernel_size, padding=padding)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Offsets of about a pixel and masks around one half, as after training; zero would hide errors."""
        zero_mean_kaiming_(self.weight)
        self.weight.mul_(2.5)  # makes up for the mask and for the smoothing of bilinear samples
        nn.init.normal_(self.bias, std=0.05)
        taps = self.weight.shape[2] * self.weight.shape[3]
        init_offsets_(self.conv_offset_mask, 2 * taps, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        o1, o2, mask = torch.chunk(self.conv_offset_mask(x), 3, dim=1)
        offset = torch.cat((o1, o2), dim=1)
        mask = torch.sigmoid(mask)
        p = self.padding
        return torch.ops.trtsmith.modulated_deformable_convolution(
            x, offset, mask, self.weight, self.bias, [1, 1], [p, p, p, p], [1, 1], 1, 1
        )


class CenterNetDCN(nn.Module):
    """image [N,3,H,W], H and W multiples of 32 -> heatmap [N,80,H/4,W/4] in 0..1, wh and reg [N,2,H/4,W/4]."""

    def __init__(
        self,
        num_classes: int = 80,
        deconv_filters: tuple[int, int, int] = (256, 128, 64),
        head_conv: int = 64,
        backbone_layers: tuple[int, int, int, int] = (2, 2, 2, 2),
    ) -> None:
        super().__init__()
        self.backbone = ResNet(BasicBlock, backbone_layers)
        stages: list[nn.Module] = []
        inplanes = 512
        for planes in deconv_filters:
            stages += [
                DCN(inplanes, planes),
                nn.BatchNorm2d(planes),
                nn.ReLU(),
                nn.ConvTranspose2d(planes, planes, 4, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(planes),
                nn.ReLU(),
            ]
            inplanes = planes
        self.deconv_layers = nn.Sequential(*stages)

        def head(channels: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inplanes, head_conv, 3, padding=1), nn.ReLU(), nn.Conv2d(head_conv, channels, 1)
            )

        self.hm = head(num_classes)
        self.wh = head(2)
        self.reg = head(2)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        init_weights(self)
        for module in self.modules():
            if isinstance(module, DCN):
                module.reset_parameters()
        # Outputs lie around their means, as after training, and the image moves them by a third of that. Rounding to
        # bfloat16 changes 6 % of what the image does, and of outputs without a mean so much proves nothing. The prior is
        # 20 % per class: of 10 %, with which training starts, too little depends on the image.
        for head, scale, mean, spread in (
            (self.hm, 0.35, -1.39, 0.2),
            (self.wh, 2.0, 6.0, 0.5),  # cells of the map
            (self.reg, 0.16, 0.5, 0.05),  # parts of a cell
        ):
            last = head[-1]
            assert isinstance(last, nn.Conv2d) and last.bias is not None
            scale_weight_(last, scale)
            nn.init.normal_(last.bias, mean=mean, std=spread)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *_, c5 = self.backbone(image)
        x = self.deconv_layers(c5)
        return torch.sigmoid(self.hm(x)), self.wh(x), self.reg(x)


def build_centernet_dcn(seed: int = 0, **sizes: object) -> CenterNetDCN:
    """CenterNetDCN(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = CenterNetDCN(**sizes)  # type: ignore[arg-type]
        model.reset_parameters()
    return model.eval()

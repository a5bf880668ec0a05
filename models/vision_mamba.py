"""Vision Mamba (arXiv:2401.09417), Vim-tiny as published: patches of 16 pixels with a class token in the middle, 24 blocks
of width 192 that scan the tokens forwards and backwards (Mamba, arXiv:2312.00752), and a classifier."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.foreign import selective_scan
from models.layers import seeded

PATCH = 16


class Direction(nn.Module):
    """The scan of one direction: x and gates z [N,D,L] -> [N,D,L], from a causal convolution of the last four tokens."""

    def __init__(self, width: int, states: int, rank: int) -> None:
        super().__init__()
        self.rank, self.states = rank, states
        self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.maps = nn.Linear(width, rank + 2 * states, bias=False)
        self.step = nn.Linear(rank, width)
        self.log_rates = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """As Mamba begins: step sizes from 0.001 to 0.1, which softplus makes of the bias."""
        nn.init.uniform_(self.step.weight, -(self.rank**-0.5), self.rank**-0.5)
        sizes = torch.exp(torch.empty_like(self.step.bias).uniform_(math.log(0.001), math.log(0.1)))
        self.step.bias.copy_(sizes.expm1().log())
        self.log_rates.add_(torch.randn_like(self.log_rates), alpha=0.1)
        self.skip.add_(torch.randn_like(self.skip), alpha=0.1)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        x = F.silu(self.conv(x)[:, :, : x.shape[2]])
        parts = self.maps(x.transpose(1, 2)).transpose(1, 2)
        low, b, c = parts.split((self.rank, self.states, self.states), dim=1)
        delta = self.step.weight @ low
        return selective_scan(x, delta, -self.log_rates.exp(), b, c, self.skip, z, self.step.bias)


class Block(nn.Module):
    """Tokens [N,L,C] -> the same, with what the two directions add: the mean of both, through one gate."""

    def __init__(self, channels: int, states: int) -> None:
        super().__init__()
        width = 2 * channels
        self.norm = nn.RMSNorm(channels, eps=1e-5)
        self.enter = nn.Linear(channels, 2 * width, bias=False)
        self.directions = nn.ModuleList(Direction(width, states, math.ceil(channels / 16)) for _ in range(2))
        self.leave = nn.Linear(width, channels, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x, z = self.enter(self.norm(tokens)).transpose(1, 2).chunk(2, dim=1)
        ahead, back = self.directions
        both = ahead(x, z) + back(x.flip(2), z.flip(2)).flip(2)
        return tokens + self.leave((both / 2).transpose(1, 2))


class VisionMamba(nn.Module):
    """image [N,3,height,width], sizes that are multiples of 16 -> logits [N,num_classes]."""

    def __init__(
        self,
        height: int = 224,
        width: int = 224,
        channels: int = 192,
        depth: int = 24,
        states: int = 16,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        patches = height // PATCH * (width // PATCH)
        self.middle = patches // 2
        self.patches = nn.Conv2d(3, channels, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.empty(1, 1, channels))
        self.places = nn.Parameter(torch.empty(1, patches + 1, channels))
        self.blocks = nn.Sequential(*(Block(channels, states) for _ in range(depth)))
        self.norm = nn.RMSNorm(channels, eps=1e-5)
        self.head = nn.Linear(channels, num_classes)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for place in (self.class_token, self.places):
            nn.init.normal_(place, std=0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, nn.RMSNorm):
                nn.init.uniform_(module.weight, 0.8, 1.2)
            elif isinstance(module, Direction):
                module.reset_parameters()

    def forward(self, image: Tensor) -> tuple[Tensor]:
        tokens = self.patches(image).flatten(2).transpose(1, 2)
        before, after = tokens[:, : self.middle], tokens[:, self.middle :]
        tokens = torch.cat((before, self.class_token.expand(image.shape[0], -1, -1), after), dim=1)
        found = self.norm(self.blocks(tokens + self.places))[:, self.middle]
        return (self.head(found),)


def build_vision_mamba(seed: int = 0, **sizes: int) -> VisionMamba:
    """VisionMamba(**sizes) in eval mode with weights that depend on `seed` alone."""
    with seeded(seed):
        model = VisionMamba(**sizes)
        model.reset_parameters()
    return model.eval()

"""Provides blocks that more than one model uses: the ResNet trunk and the seeded initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

NormLayer = Callable[[int], nn.Module]


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation with fixed statistics and affine, as detection backbones use it (buffers only)."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(num_features))
        self.register_buffer("bias", torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        bias = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)


def _downsample(inplanes: int, planes: int, stride: int, norm_layer: NormLayer) -> nn.Sequential | None:
    if stride == 1 and inplanes == planes:
        return None
    return nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False), norm_layer(planes))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al., 2015): ResNet-18."""

    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int, norm_layer: NormLayer) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = norm_layer(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm_layer(planes)
        self.relu = nn.ReLU()
        self.downsample = _downsample(inplanes, planes, stride, norm_layer)

    @property
    def last_norm(self) -> nn.Module:
        return self.bn2

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + identity)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions and a shortcut, stride on the 3x3: ResNet-50."""

    expansion = 4

    def __init__(self, inplanes: int, planes: int, stride: int, norm_layer: NormLayer) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = norm_layer(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = norm_layer(planes)
        self.conv3 = nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = _downsample(inplanes, planes * self.expansion, stride, norm_layer)

    @property
    def last_norm(self) -> nn.Module:
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + identity)


class ResNet(nn.Module):
    """ResNet trunk. forward: image [N,3,H,W] -> [C2, C3, C4, C5], strides 4, 8, 16 and 32 (sizes rounded up)."""

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: tuple[int, int, int, int],
        norm_layer: NormLayer = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = norm_layer(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        stages = []
        inplanes = 64
        for planes, depth, stride in zip((64, 128, 256, 512), layers, (1, 2, 2, 2), strict=True):
            blocks: list[nn.Module] = []
            for i in range(depth):
                blocks.append(block(inplanes, planes, stride if i == 0 else 1, norm_layer))
                inplanes = planes * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        c2 = self.layer1(x)
        c3 = self.layer2(c2)
        c4 = self.layer3(c3)
        c5 = self.layer4(c4)
        return [c2, c3, c4, c5]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the body with torch's CPU generator at `seed`; the caller's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@torch.no_grad()
def zero_mean_kaiming_(weight: Tensor) -> None:
    """Kaiming (fan-in, ReLU) with each filter's mean taken out.

    A rectified input has a mean that every filter would turn into a constant, and after fifty layers the constants
    drown what depends on the image. Without that mean a rectified Gaussian has 1 - 1/pi of its power left.
    """
    nn.init.kaiming_normal_(weight, nonlinearity="relu")
    weight.sub_(weight.mean(dim=tuple(range(1, weight.dim())), keepdim=True))
    weight.mul_((1 - 1 / math.pi) ** -0.5)


@torch.no_grad()
def scale_weight_(layer: nn.Module, factor: float) -> None:
    """Multiply a layer's weight in place."""
    assert isinstance(layer.weight, Tensor)
    layer.weight.mul_(factor)


@torch.no_grad()
def init_offsets_(layer: nn.Conv2d, offsets: int, pixels: float) -> None:
    """Initialise the convolution that predicts offsets, its first `offsets` channels, and masks of a deformable one.

    Offsets are of `pixels` from tap to tap and image to image; a tenth of that depends on the place. Trained offsets vary as
    slowly. Offsets that change wholly from pixel to pixel sample random places of a random map: each such layer makes what
    rounding changes 2.5 to 4 times as large (three of them: 8 % of an output in float16), and nothing can be compared.
    """
    assert layer.bias is not None
    nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
    layer.weight[:offsets].mul_(0.1 * pixels)
    nn.init.normal_(layer.bias, std=0.05)
    nn.init.normal_(layer.bias[:offsets], std=pixels)


@torch.no_grad()
def init_weights(model: nn.Module) -> None:
    """Initialise every layer so that activations stay of order one through the depth, as in a trained network.

    Kaiming (fan-in) for convolutions, Xavier for linear layers, normalisation statistics and affine spread mildly
    around the identity so that folding them wrongly is seen in the outputs.
    """
    for module in model.modules():
        if isinstance(module, nn.ConvTranspose2d):
            # With kernel k and stride s an output pixel sums over (k/s)^2 taps of every input channel.
            taps = module.in_channels
            for k, s in zip(module.kernel_size, module.stride, strict=True):
                taps *= k // s
            nn.init.normal_(module.weight, std=(2.0 / taps) ** 0.5)
        elif isinstance(module, nn.Conv2d):
            zero_mean_kaiming_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.05)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.05)
        elif isinstance(module, (nn.BatchNorm2d, FrozenBatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.bias, std=0.1)
            if isinstance(module, (nn.BatchNorm2d, FrozenBatchNorm2d)):
                assert module.running_mean is not None
                assert module.running_var is not None
                nn.init.normal_(module.running_mean, std=0.1)
                nn.init.uniform_(module.running_var, 0.8, 1.2)
    for module in model.modules():
        if isinstance(module, (BasicBlock, Bottleneck)):
            # Sixteen shortcuts each adding a branch of equal size would double the variance sixteen times.
            scale_weight_(module.last_norm, 0.4)
            if module.downsample is not None:
                scale_weight_(module.downsample[0], 0.7)

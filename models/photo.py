"""Reads the photograph that ships with the repository, preprocessed as the vision models expect it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trtsmith.converter.samples.sample_models import DETECTOR

PHOTO = DETECTOR / "photo.jpg"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def load_photo(path: Path = PHOTO) -> Tensor:
    """An RGB image as float32 [3,H,W] in 0..1."""
    from PIL import Image  # here, so that building and exporting a model does not need Pillow

    with Image.open(path) as image:
        pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255.0


def preprocess(image: Tensor, height: int, width: int) -> Tensor:
    """[3,H,W] in 0..1 -> [1,3,height,width], resized (bilinear, antialiased), ImageNet mean and deviation."""
    resized = F.interpolate(
        image[None], size=(height, width), mode="bilinear", align_corners=False, antialias=True
    )
    mean = torch.tensor(IMAGENET_MEAN).reshape(1, 3, 1, 1)
    std = torch.tensor(IMAGENET_STD).reshape(1, 3, 1, 1)
    return (resized - mean) / std


def photo_batch(height: int, width: int, batch: int = 2) -> Tensor:
    """float32 [batch,3,height,width]: the photograph, its mirror image, then ever smaller centre crops of the two."""
    photo = load_photo()
    _, full_height, full_width = photo.shape
    images = []
    for i in range(batch):
        margin = 0.08 * (i // 2)
        top, left = int(full_height * margin), int(full_width * margin)
        view = photo[:, top : full_height - top, left : full_width - left]
        images.append(preprocess(view.flip(-1) if i % 2 else view, height, width))
    return torch.cat(images)


def photo_features(images: Tensor, shapes: Sequence[tuple[int, int]], channels: int) -> list[Tensor]:
    """Feature maps [N,channels,h,w] of images [N,3,H,W], one a shape: a fixed random layer in place of a network.

    Every pixel has mean 0 and variance 1 over its channels, as a normalisation leaves it; neighbours are alike.
    """
    generator = torch.Generator().manual_seed(len(shapes) * channels)
    maps = []
    for shape in shapes:
        resized = F.interpolate(images, size=shape, mode="bilinear", align_corners=False, antialias=True)
        weight = torch.randn(channels, 3, 3, 3, generator=generator) * 0.4
        features = torch.tanh(F.conv2d(resized, weight, padding=1))
        features = features - features.mean(1, keepdim=True)
        maps.append(features / (features.std(1, keepdim=True) + 0.1))
    return maps


def photo_tokens(images: Tensor, shapes: Sequence[tuple[int, int]], channels: int) -> Tensor:
    """The same as the rows of all levels, one after another: [N, sum of h*w, channels]."""
    return torch.cat(
        [level.flatten(2).transpose(1, 2) for level in photo_features(images, shapes, channels)], 1
    )

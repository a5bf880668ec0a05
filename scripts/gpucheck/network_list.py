"""Lists the networks for the GPU with their inputs: those of models/, and published ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from gpubundle.skeleton import SUFFIX, filled
from models import MODELS
from realmodels.model_list import PUBLISHED
from realmodels.real_model import RealModel
from trtsmith.converter.base.options.shapes import ShapeRange, parse_shapes

SETS = 4
"""Sets of images for networks that read text, of each size."""


@dataclass(frozen=True)
class Network:
    """A network with its inputs.

    ranges:    smallest, usual and largest shape of each input.
    plugins:   whether what plugins compute is recognised and becomes plugins; else the graph is taken as it was exported.
    write:     the ONNX file, made in a folder.
    feeds:     one set or several of arrays by input name, in the smallest, usual or largest (0, 1, 2) shapes.
    """

    name: str
    ranges: Mapping[str, ShapeRange]
    plugins: bool
    write: Callable[[Path], Path]
    feeds: Callable[[int], list[dict[str, np.ndarray]]]


NAMES = (*MODELS, *(model.name for model in PUBLISHED))
"""Of all networks, the largest first."""


def network(name: str, bundle: Path) -> Network:
    """The network with this name, of NAMES; bundle: the folder of models unpacked by gpu_bundle.py.

    To be called in the process that runs it: PyTorch makes the inputs of large networks with threads, and a process
    that was forked from one with such threads waits for them for ever.
    """
    for model in PUBLISHED:
        if model.name == name:
            return published(model, bundle)
    return ours(name, bundle)


def ours(name: str, bundle: Path, small: bool = False) -> Network:
    """A model of models/, full or in its quick variant."""
    model = MODELS[name]
    # Their other sizes are fixed. Each image costs minutes of a CPU; decisions are counted over as many as there are.
    batches = (1, 2, model.max_batch if model.decides else min(4, model.max_batch))

    @cache
    def module() -> torch.nn.Module:
        made: torch.nn.Module = model.make(small=small)[0]
        return made

    def write(folder: Path) -> Path:
        path = folder / f"{name}.onnx"
        onnx.save(filled(bundle / f"{name}{SUFFIX}", module()), path)
        return path

    def feeds(size: int) -> list[dict[str, np.ndarray]]:
        batch = batches[size]
        most = batches[-1]
        arrays = {key: tensor.numpy() for key, tensor in model.make(small=small, batch=most)[1].items()}
        starts = range(0, most if model.decides else batch, batch)
        return [{key: array[i : i + batch] for key, array in arrays.items()} for i in starts]

    shapes = {key: array.shape[1:] for key, array in feeds(0)[0].items()}
    ranges = {k: ShapeRange(*((batch, *rest) for batch in batches)) for k, rest in shapes.items()}
    return Network(name, ranges, not name.endswith("_grid_sample"), write, feeds)


def published(model: RealModel, bundle: Path) -> Network:
    """A network of scripts/real_models.py, from its file in the bundle."""
    path = bundle / f"{model.name}.onnx"
    ranges = parse_shapes(model.shapes)

    def feeds(size: int) -> list[dict[str, np.ndarray]]:
        shapes = {name: (given.min, given.opt, given.max)[size] for name, given in ranges.items()}
        return [{name: text_images(shape, draw) for name, shape in shapes.items()} for draw in range(SETS)]

    return Network(model.name, ranges, True, lambda _: path, feeds)


LINE = 48
"""Pixels: height of an image that has one line of text."""


def text_images(shape: tuple[int, ...], draw: int = 0) -> np.ndarray:
    """float32 images [batch,3,height,width] in -1..1 with lines of text on grey, for networks that read text.

    draw: which of the sets of such images; in every second one they are upside down. Some single lines are very noisy, so
    that it is not always clear what they say.
    """
    from PIL import Image, ImageDraw

    batch, _, height, width = shape
    rng = np.random.default_rng([height * width, draw])
    size = min(32, height - 8)
    font = _font(size)
    images = []
    for number in range(batch):
        shade, ink = int(rng.integers(120, 250)), int(rng.integers(0, 100))
        image = Image.new("RGB", (width, height), (shade, shade, shade - 10 * number))
        pen = ImageDraw.Draw(image)
        for top in range(4, height - size, 2 * size):
            words = " ".join("".join(map(chr, rng.integers(65, 91, 6))) for _ in range(width // 80 + 1))
            pen.text((4 + 6 * number, top), words, fill=(ink, ink + 10, ink + 20), font=font)
        if draw % 2:
            image = image.transpose(Image.Transpose.ROTATE_180)
        noise = rng.uniform(0, 60 if height <= LINE else 10)
        pixels = np.asarray(image, np.float32) + rng.normal(0, noise, (height, width, 1))
        images.append(pixels.clip(0, 255).astype(np.float32).transpose(2, 0, 1) / 127.5 - 1)
    return np.stack(images)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)

"""Lists the networks that run on the GPU, with inputs and PyTorch's run: those of models/, and published ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from gpubundle.skeleton import SUFFIX, filled
from gpucheck.float16_sums import FP16_SUMS, Float16Sums
from gpucheck.metrics import TF32
from gpucheck.rounded_products import RoundedProducts
from gpucheck.torch_graph import TorchGraph
from models import MODELS
from realmodels.model_list import PUBLISHED
from realmodels.real_model import RealModel
from trtsmith.converter.model.shapes import ShapeRange, parse_shapes

Arrays = Mapping[str, np.ndarray]

EXACT = "float64"
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, EXACT: torch.float64}
PRECISIONS |= {TF32: torch.float32, FP16_SUMS: torch.float16}

DEVICE = "cuda"

IMAGES = (8192, 384, 384)
FEWEST, ELEMENTS = 24, 2**27
"""Images of the smallest, usual and largest shape for networks that read text: so many, or as many as have so many numbers
together, but not fewer than so many sets.

Their outputs are decisions, and nearly all are clear: the error is that of the few that are not. With one or two of these
it is chance whose error is larger, with twenty it is not. The smallest image of one line has room for one letter: float16
decides otherwise in so few of them that it takes thousands to see some.
"""

AT_ONCE = 2**22
"""Numbers that PyTorch is given at once, in several sets."""


@dataclass(frozen=True)
class Network:
    """One network.

    ranges:    smallest, usual and largest shape of each input.
    plugins:   whether what plugins compute is recognised and becomes plugins; else the graph is taken as it was exported.
    write:     the ONNX file, made in a folder.
    feeds:     one set or several of arrays by input name, in the smallest, usual or largest (0, 1, 2) shapes.
    framework: PyTorch's own runs on DEVICE in one of PRECISIONS; of each set float64 arrays by output name.
    """

    name: str
    ranges: Mapping[str, ShapeRange]
    plugins: bool
    write: Callable[[Path], Path]
    feeds: Callable[[int], list[dict[str, np.ndarray]]]
    framework: Callable[[Sequence[Arrays], str], list[dict[str, np.ndarray]]]


NAMES = (*MODELS, *(model.name for model in PUBLISHED))
"""Of all networks, the largest first."""


def network(name: str, bundle: Path) -> Network:
    """One of NAMES; bundle: the folder of models that gpu_bundle.py unpacked.

    To be called in the process that runs it: PyTorch makes the inputs of large networks with threads, and a process
    that was forked from one with such threads waits for them for ever.
    """
    for model in PUBLISHED:
        if model.name == name:
            return published(model, bundle)
    return ours(name, bundle)


def ours(name: str, bundle: Path, small: bool = False) -> Network:
    """A model of models/, as it is or in its quick variant."""
    model = MODELS[name]
    batches = (1, 2, model.max_batch)  # their other sizes are fixed

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
        most = batches[-1] if model.decides else batch
        arrays = {key: tensor.numpy() for key, tensor in model.make(small=small, batch=most)[1].items()}
        starts = range(0, most, batch)
        return [{key: array[i : i + batch] for key, array in arrays.items()} for i in starts]

    def framework(sets: Sequence[Arrays], precision: str) -> list[dict[str, np.ndarray]]:
        given = [[torch.from_numpy(array) for array in arrays.values()] for arrays in sets]
        found = [_run_module(module(), inputs, precision) for inputs in given]
        return [dict(zip(model.output_names, outputs, strict=True)) for outputs in found]

    shapes = {key: array.shape[1:] for key, array in feeds(0)[0].items()}
    ranges = {k: ShapeRange(*((batch, *rest) for batch in batches)) for k, rest in shapes.items()}
    return Network(name, ranges, not name.endswith("_grid_sample"), write, feeds, framework)


def _run_module(module: torch.nn.Module, inputs: list[torch.Tensor], precision: str) -> list[np.ndarray]:
    """The module with weights and inputs in the type, or under PyTorch's autocast: where an operator of it is in float32
    only, and where what comes of the first is not finite."""
    dtype = PRECISIONS[precision]
    with products(precision), torch.inference_mode():
        try:
            given = [x.to(DEVICE, dtype if x.is_floating_point() else x.dtype) for x in inputs]
            outputs = _outputs(copy.deepcopy(module).to(DEVICE, dtype), given)
            if all(np.isfinite(output).all() for output in outputs):
                return outputs
        except RuntimeError as error:
            if dtype in (torch.float32, torch.float64) or isinstance(error, torch.OutOfMemoryError):
                raise
        with torch.autocast(DEVICE, dtype, enabled=dtype in (torch.float16, torch.bfloat16)):
            return _outputs(copy.deepcopy(module).to(DEVICE), [x.to(DEVICE) for x in inputs])


def _outputs(module: torch.nn.Module, inputs: list[torch.Tensor]) -> list[np.ndarray]:
    found = module(*inputs)
    return [x.double().cpu().numpy() for x in (found if isinstance(found, tuple) else (found,))]


@contextmanager
def products(precision: str) -> Iterator[None]:
    """PyTorch's products as TensorRT's are: TF32 for float32, where PyTorch takes it, or everywhere for TF32; and sums
    of halves in float32, but for FP16_SUMS."""
    matmul = torch.backends.cuda.matmul
    torch.backends.cudnn.allow_tf32 = matmul.allow_tf32 = True
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    modes = {TF32: RoundedProducts, FP16_SUMS: Float16Sums}
    with modes.get(precision, nullcontext)():
        yield
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def published(model: RealModel, bundle: Path) -> Network:
    """A network that scripts/real_models.py knows, from its file in the bundle."""
    path = bundle / f"{model.name}.onnx"
    ranges = parse_shapes(model.shapes)

    def feeds(size: int) -> list[dict[str, np.ndarray]]:
        shapes = {name: (given.min, given.opt, given.max)[size] for name, given in ranges.items()}
        sets = _sets(IMAGES[size], *shapes.values())
        return [{name: text_images(shape, draw) for name, shape in shapes.items()} for draw in range(sets)]

    def framework(sets: Sequence[Arrays], precision: str) -> list[dict[str, np.ndarray]]:
        graph = TorchGraph(onnx.load(path), DEVICE, PRECISIONS[precision])
        each = max(1, AT_ONCE // sum(array.size for array in sets[0].values()))
        found: list[dict[str, np.ndarray]] = []
        with products(precision):
            for some in (sets[start : start + each] for start in range(0, len(sets), each)):
                together = {name: np.concatenate([arrays[name] for arrays in some]) for name in some[0]}
                outputs = {name: tensor.double().cpu().numpy() for name, tensor in graph(together).items()}
                parts = {name: np.split(array, len(some)) for name, array in outputs.items()}
                found += ({name: arrays[i] for name, arrays in parts.items()} for i in range(len(some)))
        return found

    return Network(model.name, ranges, True, lambda _: path, feeds, framework)


def _sets(images: int, *shapes: tuple[int, ...]) -> int:
    """Sets of inputs of these shapes, batch first."""
    elements = sum(prod(shape) for shape in shapes)
    return max(FEWEST, min(images // shapes[0][0], ELEMENTS // elements))


LINE = 48
"""Pixels: height of an image that has one line of text."""


def text_images(shape: tuple[int, ...], draw: int = 0) -> np.ndarray:
    """float32 images [batch,3,height,width] in -1..1 with lines of text on grey: what networks that read expect.

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

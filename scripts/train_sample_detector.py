#!/usr/bin/env python3
"""Trains the detector of `trtsmith sample detector` on views of its one photograph, and writes the sample's files.

    python scripts/train_sample_detector.py    # two minutes on one core; needs PyTorch and Pillow

It learns which pixels are cup, coffee, saucer and spoon, to show a detection with a network of 30 kB; it knows no other cup.
inputs.npz holds the photograph and its mirror image, expected.npz what PyTorch computes for them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as functional
from onnx import numpy_helper
from PIL import Image, ImageDraw
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from models.photo import load_photo  # noqa: E402
from trtsmith.converter.samples.sample_models import DETECTOR  # noqa: E402
from trtsmith.importers.registry import find_aliases  # noqa: E402

STEPS, IMAGES, CHANNELS = 1200, 4, 16
CLASSES = ("cup", "coffee", "saucer", "spoon")

MODEL = """<ir_version: 9, opset_import: ["" : 18, "mmcv" : 1]>
detector (float[batch, 3, height, width] images) => (float[batch, 4, ?, ?] heatmap) {
    ["/backbone/Conv"] stem = Conv <strides = [2, 2], pads = [3, 3, 3, 3]> (images, "stem.weight", "stem.bias")
    ["/backbone/Relu"] features = Relu (stem)
    ["/neck/offset/Conv"] offset = Conv <pads = [1, 1, 1, 1]> (features, "offset.weight", "offset.bias")
    ["/neck/mask/Conv"] "mask.logits" = Conv <pads = [1, 1, 1, 1]> (features, "mask.weight", "mask.bias")
    ["/neck/mask/Sigmoid"] mask = Sigmoid ("mask.logits")
    ["/neck/dcn"] neck = mmcv.MMCVModulatedDeformConv2d <stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1,
        deform_groups = 1> (features, offset, mask, "dcn.weight")
    ["/head/Conv"] "heat.logits" = Conv (neck, "heat.weight", "heat.bias")
    ["/head/Sigmoid"] heatmap = Sigmoid ("heat.logits") }"""
"""A backbone, a modulated deformable convolution as mmcv exports it, and a head; batch, height and width are dynamic."""

((_DEFORMABLE, _),) = find_aliases("mmcv", "MMCVModulatedDeformConv2d")
_FIELDS = {field.name: field.default for field in _DEFORMABLE.fields} | {"padding": (1, 1, 1, 1)}


def logits(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """[N,3,H,W] in 0..1 -> [N,4,H/2,W/2], in PyTorch: the logits of heatmap."""

    def convolution(name: str, x: Tensor, **options: int) -> Tensor:
        return functional.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], **options)

    features = functional.relu(convolution("stem", images, stride=2, padding=3))
    inputs = {
        "x": features,
        "offset": convolution("offset", features, padding=1),
        "weight": weights["dcn.weight"],
    }
    inputs["mask"] = torch.sigmoid(convolution("mask", features, padding=1))
    assert _DEFORMABLE.torch_reference is not None
    (neck,) = _DEFORMABLE.torch_reference(_FIELDS, inputs)
    return convolution("heat", neck)


def expected(weights: dict[str, Tensor], images: Tensor) -> np.ndarray:
    """The heatmap in the sample's expected.npz."""
    with torch.inference_mode():
        result: np.ndarray = torch.sigmoid(logits(weights, images)).numpy()
    return result


def sample_weights(model: Path = DETECTOR / "detector.onnx") -> dict[str, Tensor]:
    initializers = onnx.load(model).graph.initializer
    return {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in initializers}


def drawn_weights() -> dict[str, Tensor]:
    shapes = {
        "stem": (3, 7),
        "offset": (CHANNELS, 3),
        "mask": (CHANNELS, 3),
        "dcn": (CHANNELS, 3),
        "heat": (CHANNELS, 1),
    }
    outputs = {"offset": 18, "mask": 9, "heat": len(CLASSES)}
    weights = {}
    for name, (channels, kernel) in shapes.items():
        made = torch.nn.Conv2d(channels, outputs.get(name, CHANNELS), kernel)
        weights[f"{name}.weight"] = made.weight.detach() * (0.3 if name == "offset" else 1.0)
        if name != "dcn":
            weights[f"{name}.bias"] = made.bias.detach()  # type: ignore[union-attr]
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def regions() -> Tensor:
    """float32 [4,400,600]: the pixels of each class in the photograph, as outlined by hand.

    Ellipses are boxes, polygons lists of points; each is filled with 1 or 0, one after another.
    """
    rim = (173, 17, 410, 209)
    surface = (205, 94, 371, 193)
    plate = (76, 72, 480, 388)
    bowl = (325, 242, 408, 326)
    body = [(172, 103), (187, 187), (234, 262), (281, 281), (323, 281), (375, 234), (410, 103)]
    grip = [(225, 225), (258, 234), (253, 281), (225, 308), (197, 302), (195, 258)]
    handle = [(361, 253), (380, 187), (398, 70), (411, 66), (424, 73), (417, 112), (386, 248)]
    shapes: tuple[tuple[tuple[Any, int], ...], ...] = (
        ((rim, 1), (body, 1), (grip, 1)),
        ((surface, 1),),
        ((plate, 1), (rim, 0), (body, 0), (grip, 0), (bowl, 0), (handle, 0)),
        ((handle, 1), (bowl, 1), (rim, 0)),
    )
    made = []
    for filled in shapes:
        image = Image.new("L", (600, 400))
        draw = ImageDraw.Draw(image)
        for shape, value in filled:
            (draw.polygon if isinstance(shape, list) else draw.ellipse)(shape, fill=value)
        made.append(np.array(image, np.float32))
    return torch.from_numpy(np.stack(made))


def train() -> dict[str, Tensor]:
    """Weights after STEPS steps on mirrored, cropped, brighter and darker views, with fixed seeds."""
    torch.manual_seed(0)
    numbers = np.random.default_rng(0)
    picture, weights = torch.cat([load_photo(), regions()]), drawn_weights()
    optimizer = torch.optim.Adam(weights.values())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, STEPS)
    for step in range(STEPS):
        size, views = int(numbers.choice([96, 112, 128])), []
        for _ in range(IMAGES):
            share = numbers.uniform(0.75, 1)
            height, width = int(400 * share), int(600 * share)
            top, left = numbers.integers(401 - height), numbers.integers(601 - width)
            view = picture[:, top : top + height, left : left + width]
            views.append(squeezed(view.flip(-1) if numbers.random() < 0.5 else view, size))
        images, wanted = torch.cat(views).split([3, len(CLASSES)], 1)
        images = (images * numbers.uniform(0.85, 1.15) + numbers.uniform(-0.05, 0.05)).clamp(0, 1)
        wanted = functional.avg_pool2d(wanted, 2)
        found = logits(weights, images)
        loss = functional.binary_cross_entropy_with_logits(found, wanted, weight=1 + 3 * wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1} of {STEPS}: loss {loss.item():.3f}", file=sys.stderr)
    return {name: weight.detach() for name, weight in weights.items()}


def squeezed(view: Tensor, size: int) -> Tensor:
    """[C,H,W] -> [1,C,size,size]."""
    return functional.interpolate(
        view[None], (size, size), mode="bilinear", align_corners=False, antialias=True
    )


def main() -> None:
    weights = train()
    model = onnx.parser.parse_model(MODEL)
    model.graph.initializer.extend(numpy_helper.from_array(w.numpy(), name) for name, w in weights.items())
    onnx.save(model, DETECTOR / "detector.onnx")
    photo = load_photo()
    images = torch.cat([squeezed(view, 64) for view in (photo, photo.flip(-1))]).clamp(0, 1)
    np.savez(DETECTOR / "inputs.npz", images=images.numpy())
    np.savez(DETECTOR / "expected.npz", heatmap=expected(weights, images))


if __name__ == "__main__":
    main()

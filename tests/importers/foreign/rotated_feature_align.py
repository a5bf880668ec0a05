"""Samples of a map at each pixel's own rotated box, as mmcv writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign._regions import sample
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.box_sampling.rotated_feature_align import ROTATED_FEATURE_ALIGN

ALIGN = "RotatedFeatureAlign"
SCALE = 0.25


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(10)
    boxes = np.concatenate(
        [
            rng.uniform(-4, 28, (2, 5, 6, 2)),
            rng.uniform(2, 12, (2, 5, 6, 2)),
            rng.uniform(-3, 3, (2, 5, 6, 1)),
        ],
        -1,
    )
    return {"x": rng.normal(size=(2, 3, 5, 6)).astype(np.float32), "boxes": boxes.astype(np.float32)}


def oracle(points: int):  # type: ignore[no-untyped-def]
    def compute(arrays: Arrays) -> np.ndarray:
        """A box's corners turned by a matrix. Its first number is y."""
        x, boxes = (arrays[name].astype(np.float64) for name in ("x", "boxes"))
        output = x.copy()
        for image, row, column in np.ndindex(2, 5, 6):
            *numbers, angle = boxes[image, row, column]
            y, x_, width, height = np.array(numbers) * SCALE
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            away = [(0, 0)] + [(i * width / 2, j * height / 2) for i in (-1, 1) for j in (-1, 1)]
            for corner in away[:points]:
                right, down = turn @ np.array(corner)
                output[image, :, row, column] += sample(x[image], y + down, x_ + right).sum(1)
        return output

    return compute


EXAMPLES = (
    Example(
        ALIGN,
        "MMCVRotatedFeatureAlign",
        "mmcv",
        {"spatial_scale": SCALE, "points": 5},
        inputs,
        oracle(5),
        note="5",
    ),
    Example(
        ALIGN,
        "MMCVRotatedFeatureAlign",
        "mmcv",
        {"spatial_scale": SCALE, "points": 1},
        inputs,
        oracle(1),
        note="1",
    ),
    Example(ALIGN, ALIGN, "trtsmith", {"spatial_scale": SCALE, "points": 5}, inputs, oracle(5)),
)

SHAPES = {"x": (2, 3, 5, 6), "boxes": (2, 5, 6, 5)}
FIELDS = {"spatial_scale": SCALE, "points": 5}
INCONSISTENT = (
    Inconsistent(ALIGN, SHAPES, {"boxes": (2, 6, 5, 5)}, "boxes[1] = 6, but x[2] = 5", FIELDS),
    Inconsistent(ALIGN, SHAPES, {"boxes": (2, 5, 6, 4)}, "boxes[3] = 4, not 5", FIELDS),
    Inconsistent(
        ALIGN,
        SHAPES,
        {"x": (1, 1, 65536, 32768), "boxes": (1, 65536, 32768, 5)},
        "65536 x 32768 pixels",
        FIELDS,
    ),
)


def huge(side: int, device: str) -> Huge:
    """Side * side channels of 3 x 3 pixels: at 15,500, x has 2.16e9 elements (4.3 GB)."""
    import torch

    x = torch.randn(1, side * side, 3, 3, device=device, dtype=torch.float16)
    rng = np.random.default_rng(4)
    centre = np.moveaxis(np.mgrid[:3, :3], 0, -1) + rng.normal(size=(1, 3, 3, 2)) * 0.5
    size, angle = np.exp(rng.normal(1.0, 0.6, centre.shape)), rng.uniform(-np.pi, np.pi, (1, 3, 3, 1))
    boxes = torch.tensor(np.concatenate([centre, size, angle], -1), device=device).half()
    fields = {"spatial_scale": 1.0, "points": 5}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for place, cut in (
            ("first channels", slice(0, 64)),
            ("last channels", slice(side * side - 64, side * side)),
        ):
            part = {"x": numbers(x[:, cut]), "boxes": numbers(boxes)}
            results.append(
                (place, numbers(outputs[0][:, cut]), ROTATED_FEATURE_ALIGN.reference(fields, part)["output"])
            )
        return results

    return Huge(fields, {"x": x, "boxes": boxes}, check)


HUGE = HugeCase(huge, size=15_500, small=20)

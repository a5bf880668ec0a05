"""Makes test inputs of samples along borders, lists sizes at which networks use them, and computes them in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers
from trtsmith.importers.ops.box_sampling._bilinear_samples import sample_numpy

AT_ONCE = 1000
"""Boxes, as far as memory goes."""

DIRECTIONS = ((0, 1, 1, 0), (0, 1, 0, 1), (2, 3, -1, 0), (2, 3, 0, -1))
"""Of top, left, bottom and right: where x and y begin, and how they go on in shares of the box's width and height."""


@np.errstate(invalid="ignore")
def align_borders(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One border after the other, of many boxes at a time."""
    x, boxes, steps = inputs["x"].astype(np.float64), inputs["boxes"].astype(np.float64), fields["pool_size"]
    batch, planes, *_ = x.shape
    channels = planes // 4
    output = np.zeros((batch, channels, boxes.shape[1], 4))
    part = np.arange(steps + 1) / steps
    for image in range(batch):
        for border, (first_x, first_y, along_x, along_y) in enumerate(DIRECTIONS):
            feature = x[image, border * channels : (border + 1) * channels]
            for k in range(0, boxes.shape[1], AT_ONCE):
                places = boxes[image, k : k + AT_ONCE, :, None]
                width, height = places[:, 2] - places[:, 0], places[:, 3] - places[:, 1]
                places_x = places[:, first_x] + (along_x * width * part if along_x else 0 * part)
                places_y = places[:, first_y] + (along_y * height * part if along_y else 0 * part)
                samples = sample_numpy(feature, places_y, places_x)
                output[image, :, k : k + AT_ONCE, border] = samples.max(axis=2)
    return {"output": output}


def _case(
    name: str, x: tuple[int, int, int, int], boxes: int, steps: int, kind: str = "near", **marks: bool
) -> Case:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        span = np.array([x[3], x[2]])
        first = rng.uniform(-0.2, 0.8, (x[0], boxes, 2)) * span
        size = rng.uniform(0.0, 0.8, (x[0], boxes, 2)) * span * (-1 if kind == "turned" else 1)
        made = np.round(np.concatenate([first, first + size], -1) * 8) / 8
        if kind == "far":
            made *= 5
        if kind == "strange":
            chosen = rng.random(made.shape) < 0.15
            made[chosen] = rng.choice([np.nan, np.inf, -np.inf, 1e30, 3e9], int(chosen.sum()))
        return {"x": rng.normal(size=x), "boxes": made}

    return Case(name, {"pool_size": steps}, make, **marks)


def _network(name: str, x: tuple[int, int, int, int], steps: int) -> Case:
    """A box for each pixel, around it, as BorderDet's first stage predicts them."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        rows, columns = np.mgrid[: x[2], : x[3]]
        middle = np.stack([columns, rows], -1).reshape(1, -1, 2)
        reach = np.exp(rng.normal(1.0, 0.8, (x[0], x[2] * x[3], 4)))
        boxes = np.concatenate([middle - reach[..., :2], middle + reach[..., 2:]], -1)
        return {"x": rng.normal(size=x), "boxes": boxes}

    return Case(name, {"pool_size": steps}, make, large=True)


BENCHMARKS = (
    # BorderDet on the finest level of an 800x1216 image: a map of 256 channels, and one of 256 for each border; a level up.
    _network("borderdet_64", (1, 256, 100, 152), 10),
    _network("borderdet_256", (1, 1024, 100, 152), 10),
    _network("borderdet_256_coarse", (1, 1024, 25, 38), 10),
)

CASES = (
    _case("one_of_each", (1, 4, 3, 3), 1, 1),
    _case("boxes", (2, 12, 9, 11), 7, 5),
    _case("full_vectors", (2, 64, 9, 11), 20, 10),
    _case("more_samples_than_at_once", (1, 12, 12, 14), 5, 25),
    _case("more_channels_than_a_block", (1, 4 * 260, 5, 4), 3, 2),
    _case("more_boxes_than_a_block", (1, 8, 7, 9), 37, 3),
    _case("one_row", (1, 8, 1, 15), 5, 4),
    _case("one_column", (1, 8, 15, 1), 5, 4),
    _case("turned_boxes", (1, 8, 9, 8), 6, 4, "turned"),
    _case("far_outside", (2, 8, 9, 8), 12, 4, "far"),
    _case("strange_boxes", (2, 8, 9, 8), 20, 4, "strange"),
    _case("no_boxes", (2, 8, 9, 8), 0, 3),
    _case("no_channels", (2, 0, 9, 8), 4, 3),
    _case("tiles", (2, 96, 40, 50), 300, 10, large=True, tiles=True),
    *BENCHMARKS,
)


def _huge(side: int, device: str) -> Huge:
    """32 channels of side * side pixels: at 8,200, x has 2.15e9 elements (4.3 GB); boxes lie in both far corners."""
    import torch

    x = torch.randn(1, 32, side, side, device=device, dtype=torch.float16)
    # Multiples of 32, which float16 has up to 65,504.
    far = (side - 100) // 32 * 32
    boxes = torch.tensor(
        [[[0, 0, 32, 64], [far, far, far + 64, far + 32]]], device=device, dtype=torch.float16
    )
    fields: Fields = {"pool_size": 8}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for k, start in enumerate((0, far)):
            cut = slice(start, start + 100)
            part = {"x": numbers(x[:, :, cut, cut]), "boxes": numbers(boxes[:, k : k + 1]) - start}
            results.append(
                (f"box {k}", numbers(outputs[0][0, :, k]), align_borders(fields, part)["output"][0, :, 0])
            )
        return results

    return Huge(fields, {"x": x, "boxes": boxes}, check)


HUGE = HugeCase(_huge, size=8_200, small=200)

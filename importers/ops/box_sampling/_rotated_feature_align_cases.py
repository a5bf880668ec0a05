"""Makes test inputs of samples at boxes of pixels, lists sizes at which networks use them, and computes them in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers
from trtsmith.importers.ops.box_sampling._bilinear_samples import sample_numpy

CORNERS = ((0, 0), (1, 1), (-1, 1), (-1, -1), (1, -1))
"""Of the centre and the corners: how many halves of the box's width and height they lie from its centre."""


@np.errstate(invalid="ignore")
def align_rotated(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One point of all boxes after the other."""
    x, boxes = inputs["x"].astype(np.float64), inputs["boxes"].astype(np.float64)
    output = x.copy()
    top, left, width, height = np.moveaxis(boxes[..., :4] * fields["spatial_scale"], -1, 0)
    angle = boxes[..., 4]
    for right, down in CORNERS[: fields["points"]]:
        corner = (right * width + 1j * down * height) / 2 * np.exp(1j * angle)
        away = corner if right else np.zeros(angle.shape, complex)
        for image in range(len(x)):
            places = top[image] + away[image].imag, left[image] + away[image].real
            output[image] += sample_numpy(x[image], *places)
    return {"output": output}


def _fields(scale: float, points: int) -> Fields:
    return {"spatial_scale": scale, "points": points}


def _inputs(rng: np.random.Generator, x: tuple[int, int, int, int], scale: float, spread: float) -> Any:
    """Boxes around their pixels, in coordinates of the image."""
    rows, columns = np.mgrid[: x[2], : x[3]]
    centre = np.stack([rows, columns], -1) + rng.normal(size=(x[0], x[2], x[3], 2)) * spread
    size = np.exp(rng.normal(1.0, 0.6, centre.shape))
    angle = rng.uniform(-np.pi, np.pi, (*centre.shape[:3], 1))
    return {"x": rng.normal(size=x), "boxes": np.concatenate([centre / scale, size / scale, angle], -1)}


def _case(
    name: str,
    x: tuple[int, int, int, int],
    points: int = 5,
    scale: float = 0.125,
    spread: float = 1.0,
    kind: str = "",
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        made: dict[str, np.ndarray] = _inputs(rng, x, scale, spread)
        if kind == "strange":
            chosen = rng.random(made["boxes"].shape) < 0.1
            chosen[..., 4] &= rng.random(chosen.shape[:3]) < 0.5
            made["boxes"][chosen] = rng.choice([np.nan, np.inf, -np.inf, 1e30], int(chosen.sum()))
            angle = made["boxes"][..., 4]
            angle[angle > 4] = np.nan
        return made

    return Case(name, _fields(scale, points), make, **marks)


BENCHMARKS = (
    # R3Det's refinement on the finest level of a 1024x1024 image, with one point and with five, and on a coarser one.
    _case("r3det_5", (1, 256, 128, 128), large=True),
    _case("r3det_1", (1, 256, 128, 128), 1, large=True),
    _case("r3det_5_coarse", (1, 256, 32, 32), large=True),
    _case("r3det_5_batch_4", (4, 256, 128, 128), large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1),
    _case("five_points", (2, 6, 7, 9)),
    _case("one_point", (2, 6, 7, 9), 1),
    _case("full_vectors", (1, 64, 8, 10)),
    _case("odd_channels", (1, 13, 9, 7)),
    _case("more_channels_than_a_block", (1, 260, 3, 5)),
    _case("far_boxes", (1, 5, 9, 8), spread=9.0),
    _case("whole_scale", (1, 4, 6, 7), scale=1.0),
    _case("one_row", (1, 4, 1, 19)),
    _case("one_column", (1, 4, 19, 1)),
    _case("strange_boxes", (2, 6, 9, 8), kind="strange"),
    _case("strange_boxes_one_point", (2, 6, 9, 8), 1, kind="strange"),
    _case("no_channels", (2, 0, 5, 4)),
    _case("no_images", (0, 4, 5, 4)),
    _case("tiles", (2, 96, 40, 50), large=True, tiles=True),
    *BENCHMARKS,
)


def _huge(side: int, device: str) -> Huge:
    """Side * side channels of 3 x 3 pixels: at 15,500, x has 2.16e9 elements (4.3 GB)."""
    import torch

    x = torch.randn(1, side * side, 3, 3, device=device, dtype=torch.float16)
    made = _inputs(np.random.default_rng(4), (1, 1, 3, 3), 1.0, 0.5)
    boxes = torch.tensor(made["boxes"], device=device).half()

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for place, cut in (
            ("first channels", slice(0, 64)),
            ("last channels", slice(side * side - 64, side * side)),
        ):
            part = {"x": numbers(x[:, cut]), "boxes": numbers(boxes)}
            results.append(
                (place, numbers(outputs[0][:, cut]), align_rotated(_fields(1.0, 5), part)["output"])
            )
        return results

    return Huge(_fields(1.0, 5), {"x": x, "boxes": boxes}, check)


HUGE = HugeCase(_huge, size=15_500, small=20)

"""Takes the largest of samples along each border of boxes (Qiu et al., BorderDet, arXiv 2007.11056, 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
)
from trtsmith.importers.ops._shared import put_some, size_faults, size_of
from trtsmith.importers.ops.box_sampling._bilinear_samples import NONE, PixelTable, sample_numpy, sample_torch
from trtsmith.importers.ops.regions import _region_geometry as common

AT_ONCE = 1000
"""Boxes, as far as memory goes."""

DIRECTIONS = ((0, 1, 1, 0), (0, 1, 0, 1), (2, 3, -1, 0), (2, 3, 0, -1))
"""Of top, left, bottom and right: where x and y begin, and how they go on in shares of the box's width and height."""


@np.errstate(invalid="ignore")
def align_borders(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Samples one border after the other, of many boxes at a time."""
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
            put_some(rng, 0.15, made, [np.nan, np.inf, -np.inf, 1e30, 3e9])
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


MOST_STEPS = 1024


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, channels = shapes["x"][:2]
    return {"output": (batch, channels // 4, shapes["boxes"][1], 4)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    if fields["pool_size"] > MOST_STEPS:
        faults.append(f"pool_size = {fields['pool_size']}, more than {MOST_STEPS}")
    channels = size_of(shapes, "x", 1)
    if channels is not None and channels % 4 != 0:
        faults.append(f"x[1] = {channels}, not a multiple of 4")
    agreeing = size_faults(shapes, ("boxes", 2, 4), ("boxes", 0, "x", 0))
    return [*faults, *agreeing, *common.map_faults("x", shapes)]


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """All boxes at once, one sample of their borders after the other."""
    import torch

    x, boxes, steps = inputs["x"], inputs["boxes"], fields["pool_size"]
    maps = x.chunk(4, 1) if x.shape[1] else [x] * 4
    size = boxes[..., 2:] - boxes[..., :2]
    borders = []
    for feature, (first_x, first_y, along_x, along_y) in zip(maps, DIRECTIONS, strict=True):
        for step in range(steps + 1):
            places_x, places_y = boxes[..., first_x], boxes[..., first_y]
            if along_x:
                places_x = places_x + size[..., 0] * (along_x * step / steps)
            if along_y:
                places_y = places_y + size[..., 1] * (along_y * step / steps)
            found = sample_torch(feature, places_y, places_x)
            if step == 0:
                borders.append(found)
            borders[-1] = torch.maximum(borders[-1], found)
    return (torch.stack(borders, -1),)


def _expand(expansion: Expansion) -> Value:
    """A loop over the samples of a border, of all borders at once."""
    g = Builder(expansion.opset)
    steps = expansion.fields["pool_size"]
    table = PixelTable(g, 4)
    boxes = g.Cast("boxes", to="float64")
    x1, y1, x2, y2 = (g.Slice(boxes, [i], [i + 1], [2]) for i in range(4))
    first_x, first_y, along_x, along_y = np.array(DIRECTIONS).T
    corners = [g.Gather(boxes, first, axis=2) for first in (first_x, first_y)]
    reach_x = g.Where(along_x.astype(bool), (x2 - x1) * along_x.astype(np.float64), NONE)
    reach_y = g.Where(along_y.astype(bool), (y2 - y1) * along_y.astype(np.float64), NONE)
    image = g.Reshape(g.arange(table.batch), [table.batch, 1, 1])
    first = (image * [4] + np.arange(4)) * table.area
    nothing = g.Expand(g.constant(-3.4e38) * 10.0, [g.Shape(corners[0]), table.channels])

    def step(k: Value, go: Value, best: Value) -> tuple[Value, Value]:
        part = g.Cast(k, to="float64") / np.float64(steps)
        x, y = corners[0] + reach_x * part, corners[1] + reach_y * part
        return go, g.Max(best, table.sample(y, x, first))

    signature = "(int64 k, bool go, float[n, b, e, c] best) => (bool go_on, float[n, b, e, c] better)"
    best = g.Loop(steps + 1, True, nothing, body=g.graph(signature, step))
    return g.Transpose(best, perm=[0, 3, 1, 2])


def _work(fields: Fields, shapes: Shapes) -> Work:
    """Four corners of each sample, and for each sample of all channels its position and weights."""
    batch, channels, boxes, borders = shapes["output"]
    return Work(flops=batch * boxes * borders * (fields["pool_size"] + 1) * (8 * channels + 20))


def _guard(node: AliasedNode) -> Refusal | None:
    steps = node.attrs["pool_size"]
    if 1 <= steps <= MOST_STEPS:
        return None
    return Refusal(f"pool_size = {steps}", f"1 to {MOST_STEPS}", "take fewer samples, and one step at least")


BORDER_ALIGN = OpDef(
    name="BorderAlign",
    doc=(
        "For each border of a box the largest of bilinear samples of the border's own channels, from one end to the other, "
        "both ends included. Pixels are at whole numbers. A sample up to one pixel outside of the map takes its edge; one "
        "farther away, or at what is no number, is zero."
    ),
    inputs=(
        Port(
            "x",
            "T",
            4,
            "[N, 4 C, H, W] channels of the top, left, bottom and right borders, one after the other",
        ),
        Port("boxes", "T", 3, "[N, K, 4] (x1, y1, x2, y2) in pixels of the map", positions=True),
    ),
    outputs=(Port("output", "T", 4, "[N, C, K, 4] of the top, left, bottom and right borders"),),
    fields=(
        Field("pool_size", Kind.INT, f"steps from one end to the other, at most {MOST_STEPS}", minimum=1),
    ),
    shape=_shape,
    check=_check,
    reference=align_borders,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="MMCVBorderAlign",
            domains=("mmcv", "mmdeploy"),
            inputs=("x", "boxes"),
            attributes=(Attr("pool_size", Kind.INT),),
            guard=_guard,
            source="mmcv/ops/border_align.py, BorderAlignFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)

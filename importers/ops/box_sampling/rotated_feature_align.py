"""Adds to each pixel samples of its map at the pixel's rotated box (Yang et al., R3Det, arXiv 1908.05612, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
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
    attrs,
)
from trtsmith.importers.ops._shared import size_faults
from trtsmith.importers.ops.box_sampling._bilinear_samples import NONE, PixelTable, sample_numpy, sample_torch
from trtsmith.importers.ops.regions import _region_geometry as common

CORNERS = ((0, 0), (1, 1), (-1, 1), (-1, -1), (1, -1))
"""Of the centre and the corners: how many halves of the box's width and height they lie from its centre."""


@np.errstate(invalid="ignore")
def align_rotated(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Samples one point after the other, of all boxes at once."""
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


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": tuple(shapes["x"])}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = [] if fields["points"] in (1, 5) else [f"points = {fields['points']}, not 1 or 5"]
    agreeing = (("boxes", axis, "x", other) for axis, other in enumerate((0, 2, 3)))
    return [*faults, *size_faults(shapes, *agreeing, ("boxes", 3, 5)), *common.map_faults("x", shapes)]


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """All boxes at once, by sines and cosines."""
    x = inputs["x"]
    top, left, width, height, angle = inputs["boxes"].flatten(1, 2).unbind(-1)
    scale = fields["spatial_scale"]
    output = x.flatten(2)
    for right, down in CORNERS[: fields["points"]]:
        places_x, places_y = left * scale, top * scale
        if right:
            across, along = width * (scale * right / 2), height * (scale * down / 2)
            places_x = places_x + angle.cos() * across - angle.sin() * along
            places_y = places_y + angle.sin() * across + angle.cos() * along
        output = output + sample_torch(x, places_y, places_x)
    return (output.reshape(x.shape),)


def _expand(expansion: Expansion) -> Value:
    """A loop over the points, of all boxes at once. A cosine is a sine a quarter turn on: onnxruntime has one in double."""
    g = Builder(expansion.opset)
    table = PixelTable(g, 1)
    scale = g.constant(np.float64(np.float32(expansion.fields["spatial_scale"])))
    rights, downs = np.array(CORNERS[: expansion.fields["points"]], np.float64).T
    boxes = g.Reshape(g.Cast("boxes", to="float64"), [table.batch, table.area, 5])
    top, left, width, height, angle = (g.Gather(boxes, i, axis=2) for i in range(5))
    top, left = top * scale, left * scale
    half_scale = scale * np.float64(0.5)
    half_width, half_height = width * half_scale, height * half_scale
    sine, cosine = g.Sin(angle), g.Sin(angle + np.float64(math.pi / 2))
    first = g.Reshape(g.arange(table.batch), [table.batch, 1]) * table.area
    own = g.Reshape(table.pixels, [table.batch, table.area, table.channels])

    def point(k: Value, go: Value, total: Value) -> tuple[Value, Value]:
        right, down = g.Gather(rights, k, axis=0), g.Gather(downs, k, axis=0)
        is_corner = g.Cast(right, to="bool")
        across, along = half_width * right, half_height * down
        x = left + g.Where(is_corner, across * cosine - along * sine, NONE)
        y = top + g.Where(is_corner, across * sine + along * cosine, NONE)
        return go, total + table.sample(y, x, first)

    signature = "(int64 k, bool go, float[n, p, c] total) => (bool go_on, float[n, p, c] more)"
    total = g.Loop(len(rights), True, own, body=g.graph(signature, point))
    return g.Reshape(g.Transpose(total, perm=[0, 2, 1]), table.sizes)


def _work(fields: Fields, shapes: Shapes) -> Work:
    """Four corners of each sample, and for each sample of all channels its position and weights."""
    batch, channels, height, width = shapes["output"]
    return Work(flops=batch * height * width * fields["points"] * (9 * channels + 30))


def _guard(node: AliasedNode) -> Refusal | None:
    points = node.attrs["points"]
    if points in (1, 5):
        return None
    return Refusal(f"points = {points}", "1 or 5", "take the centre alone (1), or the corners, too (5)")


ROTATED_FEATURE_ALIGN = OpDef(
    name="RotatedFeatureAlign",
    doc=(
        "To each pixel are added bilinear samples of its map: at the centre of the pixel's own box, and at its four corners "
        "where there are five points. Pixels are at whole numbers. A sample up to one pixel outside of the map takes its "
        "edge; one farther away, or at what is no number, is zero."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port(
            "boxes",
            "T",
            4,
            "[N, H, W, 5] (y, x, width, height, angle) in radians, from x to y",
            positions=True,
        ),
    ),
    outputs=(Port("output", "T", 4, "[N, C, H, W]"),),
    fields=(
        common.SPATIAL_SCALE,
        Field("points", Kind.INT, "1: the centre; 5: the corners, too", default=1, minimum=1),
    ),
    shape=_shape,
    check=_check,
    reference=align_rotated,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="MMCVRotatedFeatureAlign",
            domains=("mmcv", "mmdeploy"),
            inputs=("x", "boxes"),
            attributes=attrs(spatial_scale=float, points=int),
            guard=_guard,
            source="mmcv/ops/rotated_feature_align.py, RotatedFeatureAlignFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)

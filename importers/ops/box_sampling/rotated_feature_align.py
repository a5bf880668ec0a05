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
    Attr,
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
from trtsmith.importers.ops.box_sampling._bilinear_onnx import NONE, PixelTable
from trtsmith.importers.ops.box_sampling._bilinear_samples import sample_torch
from trtsmith.importers.ops.box_sampling._rotated_feature_align_cases import (
    BENCHMARKS,
    CASES,
    CORNERS,
    HUGE,
    align_rotated,
)
from trtsmith.importers.ops.regions import _region_geometry as common


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": tuple(shapes["x"])}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = [] if fields["points"] in (1, 5) else [f"points = {fields['points']}, not 1 or 5"]
    x, boxes = shapes.get("x", (None,) * 4), shapes.get("boxes", (None,) * 4)
    for axis, other in ((0, 0), (1, 2), (2, 3)):
        if None not in (boxes[axis], x[other]) and boxes[axis] != x[other]:
            faults.append(f"boxes[{axis}] = {boxes[axis]}, but x[{other}] = {x[other]}")
    if boxes[3] not in (None, 5):
        faults.append(f"boxes[3] = {boxes[3]}, not 5")
    return [*faults, *common.map_faults("x", shapes)]


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
            attributes=(Attr("spatial_scale", Kind.FLOAT), Attr("points", Kind.INT)),
            guard=_guard,
            source="mmcv/ops/rotated_feature_align.py, RotatedFeatureAlignFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)

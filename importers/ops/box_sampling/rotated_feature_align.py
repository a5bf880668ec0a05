"""Adds to each pixel samples of its map at the pixel's rotated box (Yang et al., R3Det, arXiv 1908.05612, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

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
from trtsmith.importers.ops.box_sampling._bilinear_onnx import pixel_table, sampled
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


def _expand(expansion: Expansion) -> str:
    """A loop over the points, of all boxes at once. A cosine is a sine a quarter turn on: onnxruntime has one in double."""
    points = expansion.fields["points"]
    corners = CORNERS[:points]
    return f"""{pixel_table(1)}
boxes_wide = Cast <to = 11> (boxes)
scale = Constant <value = double {{{float(np.float32(expansion.fields["spatial_scale"]))!r}}}> ()
half = Constant <value = double {{0.5}}> ()
quarter_turn = Constant <value = double {{{math.pi / 2!r}}}> ()
rights = Constant <value = double[{points}] {{{", ".join(str(right) for right, _ in corners)}}}> ()
downs = Constant <value = double[{points}] {{{", ".join(str(down) for _, down in corners)}}}> ()
rounds = Constant <value = int64 {{{points}}}> ()
go = Constant <value = bool {{1}}> ()
zero = Constant <value = int64 {{0}}> ()
one = Constant <value = int64 {{1}}> ()
i5 = Constant <value = int64[1] {{5}}> ()
box_rows_shape = Concat <axis = 0> (batch, area, i5)
box_rows = Reshape (boxes_wide, box_rows_shape)
number_2 = Constant <value = int64 {{2}}> ()
number_3 = Constant <value = int64 {{3}}> ()
number_4 = Constant <value = int64 {{4}}> ()
top_given = Gather <axis = 2> (box_rows, zero)
left_given = Gather <axis = 2> (box_rows, one)
width_given = Gather <axis = 2> (box_rows, number_2)
height_given = Gather <axis = 2> (box_rows, number_3)
angle = Gather <axis = 2> (box_rows, number_4)
top = Mul (top_given, scale)
left = Mul (left_given, scale)
half_scale = Mul (scale, half)
half_width = Mul (width_given, half_scale)
half_height = Mul (height_given, half_scale)
turned = Add (angle, quarter_turn)
sine = Sin (angle)
cosine = Sin (turned)
batch_end = Squeeze (batch)
image_numbers = Range (zero, batch_end, one)
image_shape = Concat <axis = 0> (batch, i1)
image_column = Reshape (image_numbers, image_shape)
first = Mul (image_column, area)
own_shape = Concat <axis = 0> (batch, area, channels)
own = Reshape (channels_last, own_shape)
total = Loop <body = point (int64 k, bool keep, float[n, p, c] before) => (bool keep_on, float[n, p, c] after) {{
  keep_on = Identity (keep)
  right = Gather <axis = 0> (rights, k)
  down = Gather <axis = 0> (downs, k)
  is_corner = Cast <to = 9> (right)
  across = Mul (half_width, right)
  along = Mul (half_height, down)
  across_x = Mul (across, cosine)
  along_x = Mul (along, sine)
  across_y = Mul (across, sine)
  along_y = Mul (along, cosine)
  away_x = Sub (across_x, along_x)
  away_y = Add (across_y, along_y)
  moved_x = Where (is_corner, away_x, nought)
  moved_y = Where (is_corner, away_y, nought)
  x_at = Add (left, moved_x)
  y = Add (top, moved_y){sampled("  ")}
  after = Add (before, sample)
}}> (rounds, go, own)
channels_first = Transpose <perm = [0, 2, 1]> (total)
output = Reshape (channels_first, sizes)
"""


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

"""The largest of samples along each border of boxes (Qiu et al., BorderDet, arXiv 2007.11056, 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from trtsmith.importers.ops.box_sampling._border_align_cases import (
    BENCHMARKS,
    CASES,
    DIRECTIONS,
    HUGE,
    align_borders,
)
from trtsmith.importers.ops.regions import _region_geometry as common

MOST_STEPS = 1024


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, channels = shapes["x"][:2]
    return {"output": (batch, channels // 4, shapes["boxes"][1], 4)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    if fields["pool_size"] > MOST_STEPS:
        faults.append(f"pool_size = {fields['pool_size']}, more than {MOST_STEPS}")
    x, boxes = shapes.get("x", (None,) * 4), shapes.get("boxes", (None,) * 3)
    if x[1] is not None and x[1] % 4 != 0:
        faults.append(f"x[1] = {x[1]}, not a multiple of 4")
    if boxes[2] not in (None, 4):
        faults.append(f"boxes[2] = {boxes[2]}, not 4")
    if None not in (x[0], boxes[0]) and x[0] != boxes[0]:
        faults.append(f"boxes[0] = {boxes[0]}, but x[0] = {x[0]}")
    return [*faults, *common.map_faults("x", shapes)]


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


def _expand(expansion: Expansion) -> str:
    """A loop over the samples of a border, of all borders at once."""
    steps = expansion.fields["pool_size"]
    return f"""{pixel_table(4)}
begin_x = Constant <value = int64[4] {{0, 0, 2, 2}}> ()
begin_y = Constant <value = int64[4] {{1, 1, 3, 3}}> ()
along_x = Constant <value = double[4] {{1, 0, -1, 0}}> ()
along_y = Constant <value = double[4] {{0, 1, 0, -1}}> ()
goes_x = Cast <to = 9> (along_x)
goes_y = Cast <to = 9> (along_y)
steps = Constant <value = double {{{steps}}}> ()
rounds = Constant <value = int64 {{{steps + 1}}}> ()
go = Constant <value = bool {{1}}> ()
zero = Constant <value = int64 {{0}}> ()
one = Constant <value = int64 {{1}}> ()
least_number = Constant <value = float {{-3.4e38}}> ()
ten = Constant <value = float {{10}}> ()
least = Mul (least_number, ten)
boxes_wide = Cast <to = 11> (boxes)
corners_x = Gather <axis = 2> (boxes_wide, begin_x)
corners_y = Gather <axis = 2> (boxes_wide, begin_y)
x1 = Slice (boxes_wide, i0, i1, i2)
y1 = Slice (boxes_wide, i1, i2, i2)
x2 = Slice (boxes_wide, i2, i3, i2)
y2 = Slice (boxes_wide, i3, i4, i2)
widths = Sub (x2, x1)
heights = Sub (y2, y1)
width_along = Mul (widths, along_x)
height_along = Mul (heights, along_y)
reach_x = Where (goes_x, width_along, nought)
reach_y = Where (goes_y, height_along, nought)
batch_end = Squeeze (batch)
image_numbers = Range (zero, batch_end, one)
image_shape = Concat <axis = 0> (batch, i1, i1)
image_column = Reshape (image_numbers, image_shape)
image_planes = Mul (image_column, i4)
border_numbers = Constant <value = int64[4] {{0, 1, 2, 3}}> ()
plane = Add (image_planes, border_numbers)
first = Mul (plane, area)
border_sizes = Shape (corners_x)
best_shape = Concat <axis = 0> (border_sizes, channels)
nothing = Expand (least, best_shape)
best = Loop <body = step (int64 k, bool keep, float[n, b, e, c] before) => (bool keep_on, float[n, b, e, c] after) {{
  keep_on = Identity (keep)
  number = Cast <to = 11> (k)
  part = Div (number, steps)
  moved_x = Mul (reach_x, part)
  moved_y = Mul (reach_y, part)
  x_at = Add (corners_x, moved_x)
  y = Add (corners_y, moved_y){sampled("  ")}
  after = Max (before, sample)
}}> (rounds, go, nothing)
output = Transpose <perm = [0, 3, 1, 2]> (best)
"""


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
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)

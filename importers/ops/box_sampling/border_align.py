"""The largest of samples along each border of boxes (Qiu et al., BorderDet, arXiv 2007.11056, 3.1)."""

from __future__ import annotations

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
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)

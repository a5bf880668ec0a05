"""Precise RoI pooling (Jiang et al., Acquisition of Localization Confidence, arXiv 1807.11590, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trtsmith.importers.opdef import (
    Alias,
    Attr,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._precise_region_pool_cases import (
    BENCHMARKS,
    CASES,
    HUGE,
    pool_fields,
    pool_precisely,
)
from trtsmith.importers.ops.regions._precise_region_pool_onnx import expand_precise_regions

_REGIONS_AT_ONCE = 64
"""A limit of the PyTorch formulation, whose rows are as large as this many maps."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x"][1], *bins)}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    return [*common.box_faults(shapes, 5), *common.map_faults("x", shapes)]


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Weights of rows and columns as differences of the tent's integral, and two products."""
    import torch

    x, rois = inputs["x"], inputs["rois"]
    batch, channels, *extents = x.shape
    bins = fields["output_height"], fields["output_width"]
    images = rois[:, 0]
    usable = torch.isfinite(rois[:, 1:]).all(1) & (images > -1) & (images < batch)
    box = torch.where(usable[:, None], rois[:, 1:] * fields["spatial_scale"], 0)
    size = box[:, 2:] - box[:, :2]
    usable = usable & (size > 0).all(1)

    def integral(distance: Any) -> Any:
        inside = distance.clamp(-1, 1)
        return inside - inside * inside.abs() / 2

    def weights(axis: int, count: int, extent: int) -> Any:
        """[K, count, extent]"""
        number = torch.arange(count, dtype=x.dtype, device=x.device)
        step = size[:, axis, None] / count
        start = box[:, axis, None] + number * step
        pixel = torch.arange(extent, dtype=x.dtype, device=x.device)
        ends = start[..., None] - pixel
        found = (integral(ends + step[..., None]) - integral(ends)) / step[..., None]
        return torch.where(usable[:, None, None], found, 0)

    rows, columns = weights(1, bins[0], extents[0]), weights(0, bins[1], extents[1])
    output = x.new_zeros(rois.shape[0], channels, *bins)
    image = torch.where(usable, images, 0).long()
    for i in range(batch):
        members = torch.nonzero(usable & (image == i))[:, 0]
        for part in members.split(_REGIONS_AT_ONCE):
            by_row = torch.einsum("kph,chw->kpcw", rows[part], x[i])
            output[part] = torch.einsum("kpcw,kqw->kcpq", by_row, columns[part])
    return (output,)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A bin has two rows and two columns of pixels at least."""
    return Work(flops=math.prod(shapes["output"]) * 12)


PRECISE_REGION_POOL = OpDef(
    name="PreciseRegionPool",
    doc=(
        "Precise RoI pooling: each bin of a box holds the exact average, over all of its area, of the map interpolated "
        "bilinearly between pixels at whole numbers. Outside the map is zero. The output is zero for a region without a "
        "positive size, with a coordinate that is not finite, or whose image does not exist."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port("rois", "T", 2, "[K, 5] (image, x1, y1, x2, y2)", positions=True),
    ),
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]"),),
    fields=(common.OUTPUT_HEIGHT, common.OUTPUT_WIDTH, common.SPATIAL_SCALE),
    shape=_shape,
    check=_check,
    reference=pool_precisely,
    torch_reference=_torch_reference,
    expand=expand_precise_regions,
    aliases=(
        Alias(
            op_type="PrRoIPool",
            domains=("mmcv",),
            inputs=("x", "rois"),
            attributes=(
                Attr("pooled_height", Kind.INT),
                Attr("pooled_width", Kind.INT),
                Attr("spatial_scale", Kind.FLOAT),
            ),
            fields=lambda node: pool_fields(
                node.attrs["pooled_height"], node.attrs["pooled_width"], node.attrs["spatial_scale"]
            ),
            source="mmcv/ops/prroi_pool.py, PrRoIPoolFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
)

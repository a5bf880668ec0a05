"""RoI align (He et al., Mask R-CNN, arXiv 1703.06870, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Arrays,
    Body,
    Expansion,
    Fields,
    OpDef,
    Port,
    Shapes,
)
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._region_align_aliases import ALIASES
from trtsmith.importers.ops.regions._region_align_cases import BENCHMARKS, CASES, HUGE
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, Geometry
from trtsmith.importers.ops.regions._region_onnx import expand_regions
from trtsmith.importers.ops.regions._region_reference import pool_regions
from trtsmith.importers.ops.regions._region_torch import pool_regions_torch


def _geometry(fields: Fields) -> Geometry:
    aligned = bool(fields["aligned"])
    return Geometry(
        output_height=fields["output_height"],
        output_width=fields["output_width"],
        sampling_ratio=fields["sampling_ratio"],
        scales=(fields["spatial_scale"],),
        pixel_offset=0.5 if aligned else 0.0,
        least_size=None if aligned else 1.0,
        pooling=fields["pooling"],
    )


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x"][1], *bins)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    return [
        *common.sampling_faults(fields["sampling_ratio"]),
        *common.box_faults(shapes, 5),
        *common.map_faults("x", shapes),
    ]


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    return {"output": pool_regions([inputs["x"]], inputs["rois"], _geometry(fields))}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    return (pool_regions_torch([inputs["x"]], inputs["rois"], _geometry(fields)),)


def _expand(expansion: Expansion) -> Body:
    return expand_regions(_geometry(expansion.fields), ["x"], "rois", expansion.opset)


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    from torchvision.ops import roi_align

    if fields["pooling"] != AVERAGE:
        raise ValueError("torchvision's roi_align has averages only")
    size = (fields["output_height"], fields["output_width"])
    output = roi_align(
        tensors["x"],
        tensors["rois"],
        size,
        fields["spatial_scale"],
        fields["sampling_ratio"],
        bool(fields["aligned"]),
    )
    return (output,)


REGION_ALIGN = OpDef(
    name="RegionAlign",
    doc=(
        "RoI align of boxes, each cut into bins that hold the average or the largest of bilinear samples of a feature map. "
        "A sample up to one pixel outside of the map takes its edge, one farther away is zero. The output is zero for a "
        "region whose image does not exist, with a coordinate that is not finite, or, where sampling_ratio is 0, without a "
        "positive size. ONNX's own RoiAlign is TensorRT's to import: its maximum is another one."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port("rois", "T", 2, "[K, 5] (image, x1, y1, x2, y2)", positions=True),
    ),
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]"),),
    fields=(
        common.OUTPUT_HEIGHT,
        common.OUTPUT_WIDTH,
        common.SPATIAL_SCALE,
        common.SAMPLING_RATIO,
        common.ALIGNED,
        common.POOLING,
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=ALIASES,
    cases=CASES,
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    huge=HUGE,
    benchmarks=BENCHMARKS,
    baselines={"torchvision": _torchvision},
    work=common.sampling_work,
    workspace=True,
)

"""RoI align of rotated boxes (Ma et al., Rotation Region Proposal Network, arXiv 1703.01086)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from trtsmith.importers.opdef import Alias, Case, Fields, Port, attrs
from trtsmith.importers.ops._shared import flag
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._pooling import pooling_operator
from trtsmith.importers.ops.regions._region_align_aliases import (
    CAFFE2_ATTRIBUTES,
    caffe2_fields,
    caffe2_guard,
    renamed,
    sampling_refusal,
)
from trtsmith.importers.ops.regions._region_cases import Size, proposals, region_case, turned
from trtsmith.importers.ops.regions._region_geometry import Geometry

_DEFAULTS = {
    "output_height": 7,
    "output_width": 7,
    "spatial_scale": 0.25,
    "sampling_ratio": 2,
    "aligned": 1,
    "clockwise": 0,
    "degrees": 0,
}


_case = partial(region_case, _DEFAULTS)


def _network(name: str, x: Size, rois: int) -> Case:
    """Proposals on an image of four times the map's size, turned."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        regions = turned(rng, proposals(rng, rois, (4 * x[2], 4 * x[3]), x[0]))
        return {"x": rng.normal(size=x), "rois": regions}

    return Case(name, _DEFAULTS, make, large=True)


BENCHMARKS = (
    _network("boxes_7x7", (1, 256, 200, 336), 1000),
    _network("boxes_7x7_coarse", (1, 256, 64, 64), 2000),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1, output_height=1, output_width=1, sampling_ratio=1),
    _case("box_head", (2, 5, 13, 17), 9),
    _case("clockwise", (2, 5, 13, 17), 9, clockwise=1),
    _case("degrees", (1, 5, 13, 17), 9, degrees=1),
    _case("degrees_clockwise_not_aligned", (1, 5, 13, 17), 9, degrees=1, clockwise=1, aligned=0),
    _case("adaptive", (2, 3, 20, 24), 9, output_height=3, output_width=5, sampling_ratio=0),
    _case("adaptive_not_aligned", (1, 3, 20, 24), 9, aligned=0, sampling_ratio=-1),
    _case("one_row", (1, 3, 1, 15), 7),
    _case("one_column", (1, 3, 15, 1), 7, output_height=5, output_width=2),
    _case("small_regions", (1, 4, 9, 8), 12, "small", sampling_ratio=0),
    _case("small_regions_not_aligned", (1, 4, 9, 8), 12, "small", aligned=0),
    _case("turned_regions", (1, 4, 9, 8), 8, "turned"),
    _case("far_outside", (2, 3, 9, 8), 12, "far"),
    _case("far_outside_adaptive", (2, 3, 9, 8), 12, "far", sampling_ratio=0, output_height=2, output_width=2),
    _case("many_samples", (1, 3, 9, 8), 4, "far", sampling_ratio=19, output_height=2, output_width=3),
    _case("nan_and_huge_regions", (2, 4, 7, 6), 25, "strange"),
    _case("nan_and_huge_regions_adaptive", (2, 4, 7, 6), 25, "strange", sampling_ratio=0),
    _case("many_bins", (1, 3, 12, 11), 2, output_height=19, output_width=23),
    _case("no_regions", (1, 3, 9, 8), 0),
    _case("no_batch", (0, 3, 9, 8), 3),
    *BENCHMARKS,
)


def _geometry(fields: Fields) -> Geometry:
    unit = math.pi / 180 if fields["degrees"] else 1.0
    return Geometry.of(fields, angle_scale=-unit if fields["clockwise"] else unit)


_ALIASES = (
    # mmcv's exporter writes the output's height as its width, too: what the node says is what its kernels compute.
    Alias(
        op_type="MMCVRoIAlignRotated",
        domains=("mmcv", "mmdeploy"),
        inputs=("x", "rois"),
        attributes=attrs(
            output_height=int, output_width=int, spatial_scale=float, sampling_ratio=0, aligned=1, clockwise=0
        ),
        guard=sampling_refusal,
        fields=lambda node: {**node.attrs, "degrees": 0},
        source="mmcv, roi_align_rotated; mmdeploy",
    ),
    Alias(
        op_type="roi_align_rotated_forward",
        domains=("detectron2",),
        inputs=("x", "rois"),
        constants=attrs(spatial_scale=float, pooled_height=int, pooled_width=int, sampling_ratio=int),
        guard=sampling_refusal,
        fields=lambda node: {**renamed(node), "aligned": 1, "clockwise": 0, "degrees": 1},
        source="detectron2, ROIAlignRotated",
    ),
    Alias(
        op_type="RoIAlignRotated",
        domains=("org.pytorch._caffe2",),
        inputs=("x", "rois"),
        attributes=CAFFE2_ATTRIBUTES,
        guard=lambda node: caffe2_guard(node, 6),
        fields=lambda node: {**caffe2_fields(node), "clockwise": 0, "degrees": 1},
        source="Caffe2, roi_align_rotated_op; detectron2's export for it",
    ),
)

ROTATED_REGION_ALIGN = pooling_operator(
    _geometry,
    name="RotatedRegionAlign",
    doc=(
        "RoI align of boxes that are turned about their centre: the bins' averages of bilinear samples. A sample up to one "
        "pixel outside of the map takes its edge, one farther away is zero. The output is zero for a region whose image "
        "does not exist, with a number that is not finite, or, where sampling_ratio is 0, without a positive size."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port("rois", "T", 2, "[K, 6] (image, centre x, centre y, width, height, angle)", positions=True),
    ),
    fields=(
        common.OUTPUT_HEIGHT,
        common.OUTPUT_WIDTH,
        common.SPATIAL_SCALE,
        common.SAMPLING_RATIO,
        common.ALIGNED,
        common.CLOCKWISE,
        flag("degrees", "unit of the angle: 1 degrees, 0 radians"),
    ),
    check=partial(common.check, 6),
    aliases=_ALIASES,
    cases=CASES,
    benchmarks=BENCHMARKS,
)

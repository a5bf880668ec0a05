"""RoI align (He et al., Mask R-CNN, arXiv 1703.06870, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from trtsmith.importers.opdef import Fields, Port
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._pooling import pooling_operator
from trtsmith.importers.ops.regions._region_align_aliases import ALIASES
from trtsmith.importers.ops.regions._region_cases import network_case, region_case
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, MAXIMUM_CORNER, Geometry

_DEFAULTS = {
    "output_height": 7,
    "output_width": 7,
    "spatial_scale": 0.25,
    "sampling_ratio": 2,
    "aligned": 1,
    "pooling": AVERAGE,
}


_case = partial(region_case, _DEFAULTS)


_network = partial(network_case, _DEFAULTS)


BENCHMARKS = (
    # A detector's boxes on the finest level of an 800x1344 image, which is 69 MB in float32; and its masks.
    _network("boxes_7x7", (1, 256, 200, 336), 1000),
    _network("boxes_7x7_adaptive", (1, 256, 200, 336), 1000, sampling_ratio=0),
    _network("boxes_7x7_coarse", (1, 256, 50, 84), 1000),
    _network("masks_14x14", (1, 256, 200, 336), 100, output_height=14, output_width=14),
    _network("boxes_7x7_batch_4", (4, 256, 100, 168), 2000),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1, output_height=1, output_width=1, sampling_ratio=1),
    _case("box_head", (2, 5, 13, 17), 9),
    _case("box_head_not_aligned", (2, 5, 13, 17), 9, aligned=0),
    _case("adaptive", (2, 3, 20, 24), 9, output_height=3, output_width=5, sampling_ratio=0),
    _case("adaptive_many_samples", (1, 5, 40, 44), 5, output_height=3, output_width=3, sampling_ratio=0),
    _case("adaptive_not_aligned", (1, 3, 20, 24), 9, aligned=0, sampling_ratio=0),
    _case("adaptive_less_than_nought", (1, 3, 9, 8), 5, sampling_ratio=-1),
    _case("three_samples", (1, 4, 12, 9), 6, sampling_ratio=3, output_height=2, output_width=9),
    _case("one_row", (1, 3, 1, 15), 5),
    _case("one_column", (1, 3, 15, 1), 5, output_height=5, output_width=2),
    _case("maximum", (2, 4, 13, 17), 9, pooling=MAXIMUM),
    _case("maximum_adaptive", (2, 4, 20, 24), 9, pooling=MAXIMUM, sampling_ratio=0, output_height=3),
    _case("maximum_corner", (2, 4, 13, 17), 9, pooling=MAXIMUM_CORNER),
    _case("maximum_corner_adaptive", (1, 4, 20, 24), 9, pooling=MAXIMUM_CORNER, sampling_ratio=0, aligned=0),
    _case("small_regions", (1, 4, 9, 8), 12, "small"),
    _case("small_regions_not_aligned", (1, 4, 9, 8), 12, "small", aligned=0),
    _case("small_regions_adaptive", (1, 4, 9, 8), 12, "small", sampling_ratio=0),
    _case("turned_regions", (1, 4, 9, 8), 8, "turned"),
    _case("turned_regions_not_aligned", (1, 4, 9, 8), 8, "turned", aligned=0, sampling_ratio=0),
    _case("far_outside", (2, 3, 9, 8), 12, "far"),
    _case("far_outside_adaptive", (2, 3, 9, 8), 12, "far", sampling_ratio=0, output_height=2, output_width=2),
    _case("far_outside_maximum", (2, 3, 9, 8), 12, "far", sampling_ratio=0, pooling=MAXIMUM, output_height=2),
    _case("many_samples", (1, 3, 9, 8), 4, "far", sampling_ratio=19, output_height=2, output_width=3),
    _case("nan_and_huge_regions", (2, 4, 7, 6), 25, "strange"),
    _case("nan_and_huge_regions_adaptive", (2, 4, 7, 6), 25, "strange", sampling_ratio=0),
    _case("nan_and_huge_regions_maximum", (2, 4, 7, 6), 25, "strange", sampling_ratio=0, pooling=MAXIMUM),
    _case("many_bins", (1, 3, 12, 11), 2, output_height=19, output_width=23),
    _case("more_channels_than_a_block", (1, 90, 6, 7), 3),
    _case("one_bin", (1, 300, 5, 6), 3, output_height=1, output_width=1, sampling_ratio=0),
    _case("no_regions", (1, 3, 9, 8), 0),
    _case("no_regions_adaptive", (1, 3, 9, 8), 0, sampling_ratio=0),
    _case("no_batch", (0, 3, 9, 8), 3),
    *BENCHMARKS,
)


def _geometry(fields: Fields) -> Geometry:
    return Geometry.of(fields, pooling=fields["pooling"])


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


REGION_ALIGN = pooling_operator(
    _geometry,
    name="RegionAlign",
    doc=(
        "RoI align of boxes, each cut into bins that hold the average or the largest of bilinear samples of a feature map. "
        "A sample up to one pixel outside of the map takes its edge, one farther away is zero. The output is zero for a "
        "region whose image does not exist, with a coordinate that is not finite, or, where sampling_ratio is 0, without a "
        "positive size. The maximum of ONNX's RoiAlign is that of corners times weights."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        common.ROIS,
    ),
    fields=(
        common.OUTPUT_HEIGHT,
        common.OUTPUT_WIDTH,
        common.SPATIAL_SCALE,
        common.SAMPLING_RATIO,
        common.ALIGNED,
        common.POOLING,
    ),
    chain="roi-align-plugin",
    check=partial(common.check, 5),
    aliases=ALIASES,
    cases=CASES,
    benchmarks=BENCHMARKS,
    baselines={"torchvision": _torchvision},
)

"""Position-sensitive RoI align: every bin has channels of its own (Li et al., Light-Head R-CNN, arXiv 1711.07264)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Case, Fields, Port, Shapes, attrs
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._pooling import pooling_operator
from trtsmith.importers.ops.regions._region_align_aliases import renamed, sampling_refusal
from trtsmith.importers.ops.regions._region_cases import network_case, region_case
from trtsmith.importers.ops.regions._region_geometry import Geometry


def _geometry(fields: Fields) -> Geometry:
    return Geometry.of(fields, by_position=True)


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    height, width = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x"][1] // (height * width), height, width)}


def _check(fields: Fields, shapes: Shapes) -> list[str]:
    return common.check(5, fields, shapes) + common.check_bins(fields, shapes)


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    from torchvision.ops import ps_roi_align

    size = (fields["output_height"], fields["output_width"])
    return (
        ps_roi_align(tensors["x"], tensors["rois"], size, fields["spatial_scale"], fields["sampling_ratio"]),
    )


def channels_read(node: AliasedNode) -> dict[str, Value]:
    """Computes torchvision's second output, for its gradient: the input channel of every element of the first."""
    g = node.builder()
    shape = g.Shape("output")
    planes = shape[1:4]
    channels = g.Reshape(g.Range(0, g.ReduceProd(planes, keepdims=0), 1), planes)
    return {"channel_mapping": g.Cast(g.Expand(channels, shape), to="int32")}


_ALIASES = (
    Alias(
        op_type="ps_roi_align",
        domains=("torchvision",),
        inputs=("x", "rois"),
        outputs=("output", "channel_mapping"),
        constants=attrs(spatial_scale=float, pooled_height=int, pooled_width=int, sampling_ratio=int),
        guard=sampling_refusal,
        fields=renamed,
        epilogue=channels_read,
        source="torchvision ops/ps_roi_align",
    ),
)

_DEFAULTS = {"output_height": 3, "output_width": 2, "spatial_scale": 0.25, "sampling_ratio": 2}


def _case(name: str, batch: int, channels: int, rois: int, kind: str = "near", **given: Any) -> Case:
    """channels: of the output."""
    fields = _DEFAULTS | given
    size = (batch, channels * fields["output_height"] * fields["output_width"], 13, 11)
    return region_case(fields, name, size, rois, kind)


_network = partial(network_case, _DEFAULTS, spatial_scale=0.0625)


# Light-Head R-CNN: ten channels for each of 7 x 7 bins, stride 16.
_BENCHMARKS = (
    _network("light_head_7x7", (1, 490, 50, 84), 1000, output_height=7, output_width=7),
    _network("light_head_7x7_batch_4", (4, 490, 50, 84), 4000, output_height=7, output_width=7),
)

_CASES = (
    _case("one_of_each", 1, 1, 1, output_height=1, output_width=1, sampling_ratio=1),
    _case("three_by_two", 2, 5, 9),
    _case("adaptive", 2, 3, 9, sampling_ratio=0),
    _case("adaptive_less_than_nought", 1, 3, 5, sampling_ratio=-1),
    _case("seven_by_seven", 1, 2, 5, output_height=7, output_width=7),
    _case("many_channels", 1, 300, 2, output_height=1, output_width=2),
    _case("small_regions", 1, 4, 9, "small", sampling_ratio=0),
    _case("turned_regions", 1, 4, 9, "turned"),
    _case("far_outside", 2, 3, 12, "far", sampling_ratio=0),
    _case("nan_and_huge_regions", 2, 4, 25, "strange"),
    _case("many_bins", 1, 1, 2, output_height=17, output_width=19),
    _case("no_regions", 1, 3, 0),
    _case("no_batch", 0, 3, 2),
    *_BENCHMARKS,
)

POSITION_SENSITIVE_REGION_ALIGN = pooling_operator(
    _geometry,
    name="PositionSensitiveRegionAlign",
    doc=(
        "RoI align in which bin b of output channel c reads input channel c * bins + b. Pixels' centres are at halves, "
        "sizes are as they are. Regions that are read nowhere are zero, as in RoI align."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C * output_height * output_width, H, W]"),
        common.ROIS,
    ),
    fields=(common.OUTPUT_HEIGHT, common.OUTPUT_WIDTH, common.SPATIAL_SCALE, common.SAMPLING_RATIO),
    shape=_shape,
    workspace=False,
    check=_check,
    aliases=_ALIASES,
    cases=_CASES,
    benchmarks=_BENCHMARKS,
    baselines={"torchvision": _torchvision},
)

"""RoI align on several levels of features, with a level chosen by each region's size (Lin et al., arXiv 1612.03144)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from trtsmith.importers.opdef import AliasedNode, Attr, Fields, Kind
from trtsmith.importers.ops.regions import _pyramid as pyramid
from trtsmith.importers.ops.regions._pooling import maps, pooling_operator
from trtsmith.importers.ops.regions._pyramid import benchmarks, cases
from trtsmith.importers.ops.regions._region_geometry import (
    AVERAGE,
    MAXIMUM,
    POOLING,
    ROIS,
    Geometry,
)


def _geometry(fields: Fields) -> Geometry:
    """As mmdeploy's kernel has it: growth counts the last pixel, and no aligned region has a negative size."""
    return Geometry.of(
        fields,
        scales=pyramid.scales(fields),
        least_size=0.0 if fields["aligned"] else 1.0,
        pooling=fields["pooling"],
        growth=fields["roi_scale_factor"],
        growth_counts_ends=True,
        finest_scale=fields["finest_scale"],
    )


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    """Level by level, with the choice of levels: regions of one are gathered, and their bins put in their places."""
    import torch
    from torchvision.ops import roi_align

    if fields["pooling"] != AVERAGE or fields["roi_scale_factor"] > 0:
        raise ValueError("torchvision's roi_align has averages of regions that do not grow only")
    rois, features = tensors["rois"], maps(tensors)
    size = (fields["output_height"], fields["output_width"])
    area = ((rois[:, 3] - rois[:, 1]) * (rois[:, 4] - rois[:, 2])).clamp_min(0)
    level = (area.sqrt() / fields["finest_scale"] + 1e-6).log2().floor().clamp(0, len(features) - 1)
    output = features[0].new_empty(rois.shape[0], features[0].shape[1], *size)
    for i, (feature, scale) in enumerate(zip(features, pyramid.scales(fields), strict=True)):
        members = torch.nonzero(level == i)[:, 0]
        output[members] = roi_align(
            feature, rois[members], size, scale, fields["sampling_ratio"], bool(fields["aligned"])
        )
    return (output,)


def _choice(node: AliasedNode) -> Fields:
    return {"pooling": AVERAGE if node.attrs["pool_mode"] else MAXIMUM}


PYRAMID_REGION_ALIGN = pooling_operator(
    _geometry,
    name="PyramidRegionAlign",
    doc=(
        "RoI align of each region on one of several levels of features: that of number floor(log2(size / finest_scale)), "
        "where size is the root of the region's area. Samples, borders and regions that are read nowhere are as those of "
        "RoI align on one level."
    ),
    inputs=(
        ROIS,
        *pyramid.MAPS,
    ),
    fields=(*pyramid.FIELDS, POOLING),
    shape=pyramid.shape,
    check=partial(pyramid.check, 5),
    aliases=(pyramid.alias("MMCVMultiLevelRoiAlign", Attr("pool_mode", Kind.INT, 0), _choice),),
    cases=cases(turned=False),
    benchmarks=benchmarks(turned=False),
    baselines={"torchvision": _torchvision},
)

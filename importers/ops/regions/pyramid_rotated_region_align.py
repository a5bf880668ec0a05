"""RoI align of rotated boxes on several levels of features."""

from __future__ import annotations

from functools import partial

from trtsmith.importers.opdef import AliasedNode, Attr, Fields, Kind, Port
from trtsmith.importers.ops.regions import _pyramid as pyramid
from trtsmith.importers.ops.regions._pooling import pooling_operator
from trtsmith.importers.ops.regions._pyramid import benchmarks, cases
from trtsmith.importers.ops.regions._region_geometry import CLOCKWISE, Geometry


def _geometry(fields: Fields) -> Geometry:
    """As mmdeploy's kernel has it: sides are at least one pixel, aligned or not."""
    return Geometry.of(
        fields,
        scales=pyramid.scales(fields),
        least_size=1.0,
        angle_scale=-1.0 if fields["clockwise"] else 1.0,
        growth=fields["roi_scale_factor"],
        finest_scale=fields["finest_scale"],
    )


def _choice(node: AliasedNode) -> Fields:
    return {"clockwise": node.attrs["clockwise"]}


PYRAMID_ROTATED_REGION_ALIGN = pooling_operator(
    _geometry,
    name="PyramidRotatedRegionAlign",
    doc=(
        "RoI align of rotated boxes, each on one of several levels of features: that of number "
        "floor(log2(size / finest_scale)), where size is the root of the box's area. Angles are radians. Sides of less "
        "than a pixel are one, aligned or not."
    ),
    inputs=(
        Port("rois", "T", 2, "[K, 6] (image, centre x, centre y, width, height, angle)", positions=True),
        *pyramid.MAPS,
    ),
    fields=(*pyramid.FIELDS, CLOCKWISE),
    shape=pyramid.shape,
    check=partial(pyramid.check, 6),
    aliases=(pyramid.alias("MMCVMultiLevelRotatedRoiAlign", Attr("clockwise", Kind.INT, 0), _choice),),
    cases=cases(turned=True),
    benchmarks=benchmarks(turned=True),
)

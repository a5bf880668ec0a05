"""RoI align of rotated boxes on several levels of features."""

from __future__ import annotations

from functools import partial

from trtsmith.importers.opdef import AliasedNode, Attr, Fields, Kind, OpDef, Port
from trtsmith.importers.ops.regions import _pyramid as pyramid
from trtsmith.importers.ops.regions._pooling import Pooling
from trtsmith.importers.ops.regions._pyramid import benchmarks, cases
from trtsmith.importers.ops.regions._region_geometry import CLOCKWISE, Geometry, sampling_work


def _geometry(fields: Fields) -> Geometry:
    """As mmdeploy's kernel has it: sides are at least one pixel, aligned or not."""
    return Geometry(
        output_height=fields["output_height"],
        output_width=fields["output_width"],
        sampling_ratio=fields["sampling_ratio"],
        scales=pyramid.scales(fields),
        pixel_offset=0.5 if fields["aligned"] else 0.0,
        least_size=1.0,
        angle_scale=-1.0 if fields["clockwise"] else 1.0,
        growth=fields["roi_scale_factor"],
        finest_scale=fields["finest_scale"],
    )


_POOLING = Pooling(_geometry)


def _choice(node: AliasedNode) -> Fields:
    return {"clockwise": node.attrs["clockwise"]}


PYRAMID_ROTATED_REGION_ALIGN = OpDef(
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
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]"),),
    fields=(*pyramid.FIELDS, CLOCKWISE),
    shape=pyramid.shape,
    check=partial(pyramid.check, 6),
    reference=_POOLING.reference,
    torch_reference=_POOLING.torch_reference,
    expand=_POOLING.expand,
    aliases=(pyramid.alias("MMCVMultiLevelRotatedRoiAlign", Attr("clockwise", Kind.INT, 0), _choice),),
    cases=cases(turned=True),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    huge="its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the positions differ",
    benchmarks=benchmarks(turned=True),
    work=sampling_work,
    workspace=True,
)

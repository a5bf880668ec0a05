"""Deformable RoI pooling: RoI align whose bins are moved by offsets (Dai et al., arXiv 1703.06211, section 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Attr,
    Case,
    Field,
    Fields,
    Kind,
    Port,
    Refusal,
)
from trtsmith.importers.ops._shared import STRANGE, put_every
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._pooling import pooling_operator
from trtsmith.importers.ops.regions._region_align_aliases import renamed, sampling_refusal
from trtsmith.importers.ops.regions._region_cases import proposals, region_case
from trtsmith.importers.ops.regions._region_geometry import Geometry

_GAMMA = float(np.float32(0.1))
"""mmcv's default, as an ONNX file has it."""


def _geometry(fields: Fields) -> Geometry:
    return Geometry.of(fields, offset_scale=fields["gamma"])


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = common.check(5, fields, shapes)
    if "offset" in shapes:
        count = shapes["rois"][0] if "rois" in shapes else None
        wanted = (count, 2, fields["output_height"], fields["output_width"])
        found = shapes["offset"]
        if any(None not in pair and pair[0] != pair[1] for pair in zip(found, wanted, strict=True)):
            faults.append(f"offset is {list(found)}, not {list(wanted)}")
    return faults


def _mmcv_guard(node: AliasedNode) -> Refusal | None:
    ratio = node.attrs["sampling_ratio"]
    if ratio != int(ratio):
        return Refusal(f"sampling_ratio = {ratio}", "a whole number", "correct 'sampling_ratio'")
    return sampling_refusal(node)


_ALIASES = (
    Alias(
        op_type="MMCVDeformRoIPool",
        domains=("mmcv", "mmdeploy"),
        inputs=("x", "rois", "offset?"),
        attributes=(
            Attr("pooled_height", Kind.INT),
            Attr("pooled_width", Kind.INT),
            Attr("spatial_scale", Kind.FLOAT, 1.0),
            Attr("sampling_ratio", Kind.FLOAT, 0.0),  # mmcv's exporter writes a float
            Attr("gamma", Kind.FLOAT, _GAMMA),
        ),
        guard=_mmcv_guard,
        fields=lambda node: {**renamed(node, "gamma"), "sampling_ratio": int(node.attrs["sampling_ratio"])},
        source="mmcv, deform_roi_pool",
    ),
)

_DEFAULTS = {
    "output_height": 3,
    "output_width": 4,
    "spatial_scale": 0.25,
    "sampling_ratio": 2,
    "gamma": 0.125,
}


def _offsets(rng: np.random.Generator, rois: int, fields: Fields, kind: str) -> np.ndarray:
    """near: shares of the region's size; strange: some are not numbers, or infinite."""
    offsets = rng.normal(size=(rois, 2, fields["output_height"], fields["output_width"]))
    if kind == "strange":
        put_every(5, offsets, STRANGE)
    return offsets


def _case(
    name: str, batch: int, channels: int, rois: int, kind: str = "near", moved: str = "near", **given: Any
) -> Case:
    """moved: the kind of offsets, "" for none."""
    case = region_case(_DEFAULTS, name, (batch, channels, 13, 11), rois, kind, **given)

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        inputs = case.inputs(rng)
        return inputs | ({"offset": _offsets(rng, rois, case.fields, moved)} if moved else {})

    return replace(case, inputs=make)


def _network(name: str, x: tuple[int, int, int, int], rois: int) -> Case:
    fields = _DEFAULTS | {"output_height": 7, "output_width": 7}

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        regions = proposals(rng, rois, (4 * x[2], 4 * x[3]), x[0])
        return {"x": rng.normal(size=x), "rois": regions, "offset": _offsets(rng, rois, fields, "near")}

    return Case(name, fields, make, large=True)


_BENCHMARKS = (_network("boxes_7x7", (1, 256, 200, 336), 1000),)

_CASES = (
    _case("one_of_each", 1, 1, 1, output_height=1, output_width=1, sampling_ratio=1, gamma=0.0),
    _case("moved_bins", 2, 5, 9),
    _case("no_offset", 2, 5, 9, moved=""),
    _case("adaptive", 2, 3, 9, sampling_ratio=0),
    _case("large_gamma", 1, 3, 5, gamma=1.5),
    _case("small_regions", 1, 4, 9, "small", sampling_ratio=0),
    _case("turned_regions", 1, 4, 9, "turned"),
    _case("far_outside", 2, 3, 12, "far", sampling_ratio=0),
    _case("many_samples", 1, 3, 4, "far", sampling_ratio=19),
    _case("nan_and_huge_regions", 2, 4, 25, "strange"),
    _case("nan_and_huge_offsets", 2, 4, 9, moved="strange"),
    _case("nan_and_huge_offsets_adaptive", 2, 4, 9, moved="strange", sampling_ratio=0),
    _case("no_regions", 1, 3, 0),
    _case("no_batch", 0, 3, 2),
    *_BENCHMARKS,
)

DEFORMABLE_REGION_POOL = pooling_operator(
    _geometry,
    name="DeformableRegionPool",
    doc=(
        "RoI align whose bins are moved, each by an offset that is a share of the region's size times gamma. Pixels' "
        "centres are at halves, sizes are as they are. Regions that are read nowhere are zero, as in RoI align, and so is "
        "a bin whose offset is not finite."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        common.ROIS,
        Port(
            "offset",
            "T",
            4,
            "[K, 2, output_height, output_width] (x, y); left out: none",
            optional=True,
            positions=True,
        ),
    ),
    fields=(
        replace(common.OUTPUT_HEIGHT, default=7),
        replace(common.OUTPUT_WIDTH, default=7),
        common.SPATIAL_SCALE,
        common.SAMPLING_RATIO,
        Field("gamma", Kind.FLOAT, "factor of the offsets", default=_GAMMA),
    ),
    check=_check,
    aliases=_ALIASES,
    cases=_CASES,
    benchmarks=_BENCHMARKS,
)

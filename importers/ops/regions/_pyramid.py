"""Defines the parts that RoI align of plain and of rotated boxes on several levels of features share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    Shapes,
)
from trtsmith.importers.ops._shared import FLAG
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._pooling import LEVELS
from trtsmith.importers.ops.regions._pooling import MAPS as MAP_NAMES
from trtsmith.importers.ops.regions._region_align_aliases import sampling_refusal
from trtsmith.importers.ops.regions._region_cases import corners, proposals, rotated
from trtsmith.importers.ops.regions._region_cases import turned as as_rotated
from trtsmith.importers.ops.regions._region_geometry import MAXIMUM

Sizes = Sequence[tuple[int, int]]

_SIZES = ((16, 20), (8, 10), (4, 5), (2, 3))
_STRIDES = (4.0, 8.0, 16.0, 32.0)
_DEFAULTS = {
    "output_height": 3,
    "output_width": 4,
    "sampling_ratio": 2,
    "aligned": 1,
    "finest_scale": 8,
    "roi_scale_factor": -1.0,
}

_DETECTOR: Sizes = ((200, 336), (100, 168), (50, 84), (25, 42))
"""Strides 4 to 32 of an 800x1344 image."""


def cases(turned: bool) -> tuple[Case, ...]:
    """Makes cases of plain or of rotated boxes, with the same names where both have them."""
    own: dict[str, Any] = {"clockwise": 0} if turned else {"pooling": 0}

    def case(
        name: str,
        batch: int,
        rois: int,
        kind: str = "near",
        sizes: Sizes = _SIZES,
        strides: Sequence[float] = _STRIDES,
        **given: Any,
    ) -> Case:
        fields = _DEFAULTS | own | {"strides": padded(strides[: len(sizes)])} | given
        extent = (sizes[0][0] * strides[0], sizes[0][1] * strides[0])

        def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
            regions = (rotated if turned else corners)(rng, rois, batch, extent, kind)
            return {"rois": regions} | _levels(rng, batch, 4, sizes)

        return Case(name, fields, make)

    grown: dict[str, Any] = {"roi_scale_factor": 1.5}
    other: dict[str, Any] = {"clockwise": 1} if turned else {"pooling": MAXIMUM}
    return (
        case("one_of_each", 1, 1, sizes=((1, 1),), output_height=1, output_width=1, sampling_ratio=1),
        case("four_levels", 2, 30),
        case("four_levels_not_aligned", 2, 30, aligned=0),
        case("two_levels", 1, 9, sizes=_SIZES[:2]),
        case(
            "eight_levels",
            1,
            40,
            sizes=tuple((9 - i, 7 - i // 2) for i in range(8)),
            strides=(2.0,) * 8,
            finest_scale=1,
        ),
        case("grown", 2, 30, **grown),
        case("grown_not_aligned", 2, 30, aligned=0, **grown),
        case("factor_of_one", 2, 30, roi_scale_factor=1.0),
        case("other_choice", 2, 30, **other),
        case("other_choice_adaptive", 1, 20, sampling_ratio=0, **other),
        case("adaptive", 1, 20, sampling_ratio=0),
        case("adaptive_grown", 1, 20, sampling_ratio=-1, aligned=0, **grown),
        case("small_regions", 1, 12, "small"),
        case("small_regions_adaptive", 1, 12, "small", sampling_ratio=0),
        case("turned_regions", 1, 12, "turned"),
        case("turned_regions_not_aligned", 1, 12, "turned", aligned=0),
        case("far_outside", 2, 20, "far", **grown),
        case("nan_and_huge_regions", 2, 30, "strange", **grown),
        case("nan_and_huge_regions_adaptive", 2, 30, "strange", sampling_ratio=0),
        case("no_regions", 1, 0),
        case("no_batch", 0, 3),
        *benchmarks(turned),
    )


def _levels(rng: np.random.Generator, batch: int, channels: int, sizes: Sizes) -> dict[str, np.ndarray]:
    return {f"x{i}": rng.normal(size=(batch, channels, *size)) for i, size in enumerate(sizes)}


def benchmarks(turned: bool) -> tuple[Case, ...]:
    """Lists a detector's boxes and masks on the four levels of an 800x1344 image."""
    own: dict[str, Any] = {"clockwise": 0} if turned else {"pooling": 0}

    def case(name: str, rois: int, bins: int, batch: int = 1) -> Case:
        size = {"output_height": bins, "output_width": bins, "finest_scale": 56}
        fields = _DEFAULTS | own | size | {"strides": padded(_STRIDES)}

        def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
            regions = proposals(rng, rois, (800, 1344), batch)
            regions = as_rotated(rng, regions) if turned else regions
            return {"rois": regions} | _levels(rng, batch, 256, _DETECTOR)

        return Case(name, fields, make, large=True)

    return (case("boxes_7x7", 1000, 7), case("masks_14x14", 100, 14), case("boxes_7x7_batch_4", 4000, 7, 4))


MAPS = tuple(
    Port(name, "T", 4, f"[N, C, H, W] of level {i}", optional=i > 0) for i, name in enumerate(MAP_NAMES)
)

FIELDS = (
    replace(common.OUTPUT_HEIGHT, default=7),
    replace(common.OUTPUT_WIDTH, default=7),
    common.SAMPLING_RATIO,
    common.ALIGNED,
    Field(
        "finest_scale", Kind.INT, "regions of twice this size, and more, leave level 0", default=56, minimum=1
    ),
    Field(
        "roi_scale_factor",
        Kind.FLOAT,
        "by which regions grow about their centre, after their level is chosen; 0 or less: they do not",
        default=-1.0,
    ),
    Field(
        "strides",
        Kind.FLOATS,
        "units of the regions' coordinates for one pixel of each level; 0 for levels that there are not",
        length=LEVELS,
        default=(4.0, 8.0, 16.0, 32.0, 0.0, 0.0, 0.0, 0.0),
    ),
)


def scales(fields: Fields) -> tuple[float, ...]:
    """Returns pixels per unit, for the levels that exist."""
    return tuple(1 / stride for stride in fields["strides"] if stride > 0)


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x0"][1], *bins)}


def check(numbers: int, fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Checks that levels agree in batch and channels, and that each has a stride."""
    present = [name for name in MAP_NAMES if name in shapes]
    faults = [*common.sampling_faults(fields["sampling_ratio"]), *common.box_faults(shapes, numbers)]
    for name in present:
        faults += common.map_faults(name, shapes)
    for axis, what in enumerate(("batch", "channels")):
        known = [name for name in present if shapes[name][axis] is not None]
        if any(shapes[name][axis] != shapes[known[0]][axis] for name in known):
            sizes = ", ".join(f"{name}[{axis}] = {shapes[name][axis]}" for name in known)
            faults.append(f"{what} differ: {sizes}")
    for level, stride in enumerate(fields["strides"]):
        if (stride > 0) != (level < len(present)):
            faults.append(f"strides = {list(fields['strides'])} for {len(present)} levels")
            break
    return faults


def alias(op_type: str, choice: Attr, fields_of_choice: Callable[[AliasedNode], Fields]) -> Alias:
    """Describes mmdeploy's operator. choice: the attribute, 0 or 1, in which the two operators differ."""

    def guard(node: AliasedNode) -> Refusal | None:
        strides = node.attrs["featmap_strides"]
        wanted = set(MAP_NAMES[: len(strides)])
        if len(strides) > LEVELS or node.present - {"rois"} != wanted or min(strides, default=0) <= 0:
            return Refusal(
                f"attribute 'featmap_strides' is {list(strides)} for {len(node.present) - 1} feature maps",
                f"a positive stride for each of 1 to {LEVELS} maps",
                "correct 'featmap_strides' where the model is exported",
            )
        chosen = node.attrs[choice.name]
        if chosen not in FLAG:
            return Refusal(f"attribute {choice.name!r} is {chosen}", "0 or 1", f"correct {choice.name!r}")
        return sampling_refusal(node)

    def fields(node: AliasedNode) -> Fields:
        same = {
            name: value for name, value in node.attrs.items() if name not in ("featmap_strides", choice.name)
        }
        return {**same, "strides": padded(node.attrs["featmap_strides"]), **fields_of_choice(node)}

    return Alias(
        op_type=op_type,
        domains=("mmdeploy",),
        inputs=("rois", "x0", *(f"{name}?" for name in MAP_NAMES[1:])),
        attributes=(
            Attr("output_height", Kind.INT, 7),
            Attr("output_width", Kind.INT, 7),
            choice,
            Attr("sampling_ratio", Kind.INT, 2),
            Attr("featmap_strides", Kind.FLOATS),
            Attr("roi_scale_factor", Kind.FLOAT, -1.0),
            Attr("finest_scale", Kind.INT, 56),
            Attr("aligned", Kind.INT, 0),
        ),
        guard=guard,
        fields=fields,
        source="mmdeploy, trt_multi_level_roi_align and trt_multi_level_rotated_roi_align",
    )


def padded(strides: Sequence[float]) -> tuple[float, ...]:
    """Pads the list with zeros for missing levels."""
    return (*map(float, strides), *(0.0,) * (LEVELS - len(strides)))

"""Holds what RoI align on several levels of features, of plain and of rotated boxes, share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Attr,
    Expansion,
    Field,
    Fields,
    Kind,
    Port,
    Refusal,
    Shapes,
)
from trtsmith.importers.ops.regions import _region_geometry as common

LEVELS = 8
"""Levels at most: as many inputs have names."""

_MAPS = tuple(f"x{i}" for i in range(LEVELS))

MAPS = tuple(Port(name, "T", 4, f"[N, C, H, W] of level {i}", optional=i > 0) for i, name in enumerate(_MAPS))

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
    """Pixels per unit, for the levels that exist."""
    return tuple(1 / stride for stride in fields["strides"] if stride > 0)


def maps(tensors: Mapping[str, Any]) -> list[Any]:
    """The levels' features, in order."""
    return [tensors[name] for name in _MAPS if name in tensors]


def map_names(expansion: Expansion) -> list[str]:
    return [name for name in _MAPS if name in expansion.present]


def shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x0"][1], *bins)}


def check(numbers: int, fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Levels must agree in batch and channels, and have a stride each."""
    present = [name for name in _MAPS if name in shapes]
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
    """mmdeploy's operator. choice: the attribute in which the two differ, 0 or 1."""

    def guard(node: AliasedNode) -> Refusal | None:
        strides = node.attrs["featmap_strides"]
        wanted = set(_MAPS[: len(strides)])
        if len(strides) > LEVELS or node.present - {"rois"} != wanted or min(strides, default=0) <= 0:
            return Refusal(
                f"attribute 'featmap_strides' is {list(strides)} for {len(node.present) - 1} feature maps",
                f"a positive stride for each of 1 to {LEVELS} maps",
                "correct 'featmap_strides' where the model is exported",
            )
        if node.attrs[choice.name] not in (0, 1):
            return Refusal(
                f"attribute {choice.name!r} is {node.attrs[choice.name]}",
                "0 or 1",
                f"correct {choice.name!r}",
            )
        ratio = node.attrs["sampling_ratio"]
        faults = common.sampling_faults(ratio)
        return Refusal(faults[0], f"at most {common.MOST_SAMPLES}", "take fewer samples") if faults else None

    def fields(node: AliasedNode) -> Fields:
        same = {
            name: value for name, value in node.attrs.items() if name not in ("featmap_strides", choice.name)
        }
        return {**same, "strides": padded(node.attrs["featmap_strides"]), **fields_of_choice(node)}

    return Alias(
        op_type=op_type,
        domains=("mmdeploy",),
        inputs=("rois", "x0", *(f"{name}?" for name in _MAPS[1:])),
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
    """The list padded with zeros for missing levels."""
    return (*map(float, strides), *(0.0,) * (LEVELS - len(strides)))

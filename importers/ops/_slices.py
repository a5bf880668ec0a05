"""Defines what operators on the slices of a tensor along an axis share: Compress and Unique of ONNX."""

from __future__ import annotations

from typing import Any

from trtsmith.importers.opdef import Field, Fields, Kind

AXIS = Field("axis", Kind.INT, "the axis, from the end where negative", default=0)


def axis_of(fields: Fields, shapes: Any) -> int:
    """The axis of the input x, from its start."""
    rank = len(shapes["x"])
    for axis in range(rank):
        if fields["axis"] in (axis, axis - rank):
            return axis
    raise IndexError(f"x of {rank} dimensions has no axis {fields['axis']}")


def check_axis(fields: Fields, shapes: Any) -> list[str]:
    """`check` of an OpDef: whether the input x has the axis."""
    x = shapes.get("x")
    if x is None or -len(x) <= fields["axis"] < len(x):
        return []
    return [f"axis = {fields['axis']}, but x has {len(x)} dimensions"]

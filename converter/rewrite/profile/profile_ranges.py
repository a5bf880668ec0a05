"""Computes the ranges that cover all optimization profiles, and the sizes that are equal in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.model.model import Model

Range = tuple[int, int]
"""Smallest and largest, both included."""


@dataclass(frozen=True)
class ProfileRanges:
    """Ranges over all profiles: by input, for each dimension and each value of a shape tensor."""

    sizes: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[Range, ...]] = field(default_factory=dict)


def ranges_of(
    profiles: Sequence[Mapping[str, ShapeRange]], values: Sequence[Mapping[str, ShapeRange]] = ()
) -> ProfileRanges:
    """Computes ranges that hold for every profile. An input that a profile leaves out is unknown."""
    return ProfileRanges(_hulls(profiles), _hulls(values))


def _hulls(profiles: Sequence[Mapping[str, ShapeRange]]) -> dict[str, tuple[Range, ...]]:
    hulls = {}
    for name in profiles[0] if profiles else ():
        ranges = [profile[name] for profile in profiles if name in profile]
        ranks = {len(one.min) for one in ranges} | {len(one.max) for one in ranges}
        if len(ranges) < len(profiles) or len(ranks) != 1:
            continue
        lows = zip(*(one.min for one in ranges), strict=True)
        highs = zip(*(one.max for one in ranges), strict=True)
        hulls[name] = tuple((min(low), max(high)) for low, high in zip(lows, highs, strict=True))
    return hulls


def with_fixed_sizes(model: Model, ranges: ProfileRanges) -> Model:
    """Writes into the model the input sizes that the profiles fix, if any. Contradicting ranges are ignored.

    An empty dimension stays dynamic: parsers take a 0 for one that is not known.
    """
    places = [
        (index, axis, bounds[axis][0])
        for index, value in enumerate(model.proto.graph.input)
        if (bounds := _fitting(value, ranges))
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value") and bounds[axis][0] == bounds[axis][1] > 0
    ]
    if not places:
        return model
    proto = model.copied()
    for index, axis, size in places:
        proto.graph.input[index].type.tensor_type.shape.dim[axis].dim_value = size
    return model.with_proto(proto)


def _fitting(value: onnx.ValueInfoProto, ranges: ProfileRanges) -> tuple[Range, ...]:
    """The ranges of an input's sizes; () where none are known or they contradict the model."""
    bounds = ranges.sizes.get(value.name, ())
    dims = value.type.tensor_type.shape.dim
    if len(bounds) != len(dims):
        return ()
    fits = all(
        low <= dim.dim_value <= high if dim.HasField("dim_value") else 0 <= low <= high
        for dim, (low, high) in zip(dims, bounds, strict=True)
    )
    return bounds if fits else ()

"""Finds outputs with a fixed size where the model declares that of an input, as exports for a single image have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtsmith.converter.graph.infer import value_shapes
from trtsmith.converter.graph.tensor_types import dims_of
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.profile.profile_ranges import Range

_OF_IMAGES = 4
"""The rank of [batch, channels, height, width]."""


def fixed_outputs(original: Model, graph: Model, ranges: Mapping[str, Sequence[Range]]) -> tuple[str, ...]:
    """Warns of outputs whose size is fixed, and not that of the input with the same symbol; of images whose number
    changes, where every output has one row, as YOLO's suppression is exported with one image in it.

    graph: the rewritten model, with inferred shapes. ranges: by input, the sizes of each dimension over all profiles.
    A size that depends on data is never inferred as a number.
    """
    known: dict[str, tuple[str, int, Range]] = {}
    for value in original.proto.graph.input:
        sized = zip(dims_of(value.type) or (), ranges.get(value.name, ()), strict=False)
        for axis, (dim, sizes) in enumerate(sized):
            if isinstance(dim, str):
                known.setdefault(dim, (value.name, axis, sizes))
    if not known:
        return ()
    shapes = value_shapes(graph.proto)
    found = []
    for value in original.proto.graph.output:
        dims = zip(dims_of(value.type) or (), shapes.get(value.name, ()), strict=False)
        for axis, (symbol, size) in enumerate(dims):
            if not isinstance(symbol, str) or symbol not in known or size is None:
                continue
            name, source, (low, high) = known[symbol]
            if low != size or high != size:
                given = f"{low}" if low == high else f"{low} to {high}"
                found.append(
                    f"output {value.name!r} always has size {size} at axis {axis}, declared as {symbol!r}, which is {given} "
                    f"in input {name!r}: the model was probably exported for one size, with a reshape to fixed numbers; "
                    f"write such a size in the module as x.shape[{source}], and export it again"
                )
    declared = [(dims_of(value.type) or (None,))[0] for value in original.proto.graph.output]
    images = [it for it in known.values() if it[1] == 0 and len(ranges[it[0]]) == _OF_IMAGES and it[2][1] > 1]
    if images and not any(one != 1 for one in declared):
        name, _, (_, most) = images[0]
        found.append(
            f"every output has size 1 at axis 0, with up to {most} images in input {name!r}: results of all but one image "
            "are probably missing; export the model with that batch, or give --shapes with one image"
        )
    return tuple(found)

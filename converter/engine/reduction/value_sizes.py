"""Finds the types of a graph's values, and their sizes at the corners of the optimization profiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.reduction.node_table import NodeTable
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_shapes, value_types
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis

MOST_SIZES = 64
"""Numbers of a value that is taken for sizes, at the most."""

_SIZE_TYPES = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL})

Profiles = Sequence[Mapping[str, Profile]]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ValueSizes:
    """Known types, sizes and constants of a graph's values.

    types:  with symbolic dimensions, as the graph itself says them.
    shapes: by value, one for each corner; a missing value has an unknown size.
    fixed:  values that the sizes of inputs decide, one for each corner: shapes, and what is computed of them.
    Corners are min, opt and max of each profile, in order; one corner without a profile.
    """

    types: Mapping[str, onnx.TypeProto.Tensor]
    shapes: Mapping[str, tuple[Shape, ...]]
    fixed: Mapping[str, tuple[np.ndarray, ...]]

    def profile(self, name: str, index: int) -> Profile:
        """Returns the sizes, in the profile of that number, of an input that replaces the value."""
        low, usual, high = self._corners(self.shapes[name], index)
        return Profile(
            tuple(map(min, zip(low, usual, high, strict=True))),
            usual,
            tuple(map(max, zip(low, usual, high, strict=True))),
        )

    @staticmethod
    def _corners(found: Sequence[Shape], index: int) -> Sequence[Shape]:
        return found[3 * index : 3 * index + 3] if len(found) > 1 else (found[0],) * 3


Run = Callable[[Sequence[Mapping[str, Shape]], Sequence[str], Sequence[str]], Sequence[Mapping[str, Shape]]]
"""(corners, inputs whose sizes are values, names) -> for each corner the sizes of these values, as a run has them."""


def value_sizes(table: NodeTable, profiles: Profiles, run_shapes: Run | None = None) -> ValueSizes:
    """Infers everything once symbolically and once for each different corner; a few tenths of a second for 3,000 nodes.

    run_shapes: asked for what cannot be inferred, as behind an If whose branches differ; None: that stays unknown.
    """
    model = table.model
    corners = [
        {name: getattr(sizes, part) for name, sizes in profile.items()}
        for profile in profiles
        for part in ("min", "opt", "max")
    ] or [{}]
    values = {name for profile in profiles for name, sizes in profile.items() if sizes.values}
    keys = [tuple(sorted(corner.items())) for corner in corners]
    known = {
        key: _at(table, corner, values) for key, corner in zip(reversed(keys), reversed(corners), strict=True)
    }
    types = value_types(infer_shapes(model).proto)
    if run_shapes is not None:
        _run(table, types, known, values, run_shapes)
    found = [known[key] for key in keys]
    names = set.intersection(*(set(shapes) for shapes, _ in found))
    fixed = set.intersection(*(set(arrays) for _, arrays in found))
    return ValueSizes(
        types,
        {name: tuple(shapes[name] for shapes, _ in found) for name in names},
        {name: tuple(arrays[name] for _, arrays in found) for name in fixed},
    )


Known = tuple[dict[str, Shape], dict[str, np.ndarray]]


def _run(
    table: NodeTable,
    types: Mapping[str, onnx.TypeProto.Tensor],
    known: Mapping[tuple[tuple[str, Shape], ...], Known],
    values: Collection[str],
    run_shapes: Run,
) -> None:
    """Adds to `known` what a run says of values of the main graph that are not in it."""
    made = [name for number in table.outer for name in table.entries[number].node.output if name]
    missing = [
        name
        for name in made
        if name in types and types[name].elem_type and any(name not in shapes for shapes, _ in known.values())
    ]
    if missing:
        corners = [dict(key) for key in known]
        for (shapes, _), seen in zip(
            known.values(), run_shapes(corners, sorted(values), missing), strict=False
        ):
            for name, shape in seen.items():
                shapes.setdefault(name, tuple(shape))


def _at(table: NodeTable, corner: Mapping[str, Shape], values: set[str]) -> Known:
    """(shapes, values that these decide) where inputs have the sizes of the corner."""
    proto = table.model.copied()
    for graph in all_graphs(proto.graph):
        del graph.value_info[:]
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    inputs = list(proto.graph.input)
    for value in inputs:
        given = corner.get(value.name)
        dims = value.type.tensor_type.shape.dim
        if given is None:
            continue
        if value.name in values or len(dims) != len(given):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            array = np.array(given if dims else given[0], dtype)
            proto.graph.initializer.append(numpy_helper.from_array(array, value.name))
            proto.graph.input.remove(value)
            continue
        for dim, size in zip(dims, given, strict=True):
            dim.Clear()
            dim.dim_value = size
    inferred = infer_shapes(table.model.with_proto(proto))
    shapes = {
        name: tuple(size for size in sizes if size is not None)
        for name, sizes in value_shapes(inferred.proto).items()
        if None not in sizes
    }
    whole = Graph(inferred)
    known = RangeAnalysis(whole, ProfileRanges())
    decided = {}
    for name in table.made:
        one = known.of(whole.root, name)
        shape, numbers = one.sizes, one.numbers() if one.elem_type in _SIZE_TYPES else None
        if shape is not None and numbers is not None and len(numbers) <= MOST_SIZES:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(one.elem_type)
            decided[name] = np.array(numbers, dtype).reshape(shape)
    return shapes, decided

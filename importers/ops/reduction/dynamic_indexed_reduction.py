"""Reduces rows to one row for each index, as many as there are: scatter of torch_scatter, and voxels of mmcv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Arrays, Case, Expansion, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops.reduction._indexed_reduction import (
    check_index,
    index_inputs,
    origin_shape,
    scatter_aliases,
    scatter_rows,
    segment_rows,
    strange_index,
    strange_numbers,
    torch_scatter_rows,
)
from trtsmith.importers.ops.reduction._rows import MAX, MEAN, MIN, NAN_RULE, REDUCTION, SUM, Rows


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    source, (count,) = shapes["source"], shapes["count"]
    return {
        "output": (count, *source[1:]),
        "origin": origin_shape(fields["reduction"], source, count),
        "count": (),
    }


def _bounds(_fields: Fields, shapes: Shapes) -> dict[str, Any]:
    return {"count": shapes["source"][0]}


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    rows = len(inputs["source"])
    count = max((int(i) + 1 for i in inputs["index"] if 0 <= i < rows), default=0)
    return scatter_rows(fields["reduction"], inputs, count) | {"count": np.array(count, np.int32)}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    import torch

    index = inputs["index"].long()
    exists = (index >= 0) & (index < index.shape[0])
    count = torch.where(exists, index + 1, 0).max().int() if index.shape[0] else index.new_zeros(()).int()
    return (*torch_scatter_rows(fields["reduction"], inputs, int(count)), count)


def _expand(expansion: Expansion) -> tuple[Value, ...]:
    g = Builder(expansion.opset)
    rows = Rows(g, "source")
    index = g.Cast("index", to="int64")
    counts = ~(index < [0]) & (index < rows.count)
    ends = g.Where(counts, g.Add(index, [1]), [0])
    segments = g.ReduceMax(g.Concat(ends, [0], axis=0), keepdims=1)
    placed = segment_rows(g, index, rows.count, segments)
    output, origin = rows.reduce(expansion.fields["reduction"], *placed, segments, origin=True)
    return output, origin, g.Cast(g.Squeeze(segments), to="int32")


def _by(reduction: int) -> dict[str, int]:
    return {"reduction": reduction}


def _each_its_own(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"source": rng.normal(size=(40, 8)), "index": rng.permutation(40)}


CASES = (
    Case("one_of_each", _by(SUM), index_inputs(1, 1, 1)),
    Case("each_its_own", _by(SUM), _each_its_own),
    Case("sums", _by(SUM), index_inputs(60, 20, 8, dense=True)),
    Case("means", _by(MEAN), index_inputs(60, 20, 16, dense=True)),
    Case("largest", _by(MAX), index_inputs(60, 20, 24)),
    Case("smallest", _by(MIN), index_inputs(60, 20, 8)),
    Case("odd_columns", _by(MEAN), index_inputs(77, 25, 13)),
    Case("numbers_alone", _by(MAX), index_inputs(60, 40)),
    Case("several_dimensions", _by(SUM), index_inputs(40, 12, 3, 5, 2)),
    Case("long_segments", _by(SUM), index_inputs(300, 3, 8, dense=True)),
    Case("strange_index", _by(SUM), index_inputs(60, 15, 8, change=strange_index)),
    Case("strange_index_largest", _by(MAX), index_inputs(60, 15, 8, change=strange_index)),
    Case("strange_numbers", _by(MAX), index_inputs(90, 15, 16, change=strange_numbers)),
    Case("no_rows", _by(MEAN), index_inputs(0, 3, 4)),
    Case("no_columns", _by(SUM), index_inputs(7, 3, 0)),
    Case(
        "no_index_that_exists",
        _by(MAX),
        lambda rng: {"source": rng.normal(size=(9, 4)), "index": np.full(9, -1)},
    ),
    Case("large", _by(MEAN), index_inputs(100_000, 40_000, 64), large=True),
    Case("tiles", _by(MAX), index_inputs(9_000, 700, 72), large=True, tiles=True),
)


DYNAMIC_INDEXED_REDUCTION = OpDef(
    name="DynamicIndexedReduction",
    doc=(
        "Rows reduced to one row for each index from 0 to the largest that there is. An index below 0, or of the number of "
        "rows or more, counts as nothing: the inverse that Unique gives has none. A segment without rows is zero. "
        f"{NAN_RULE}"
    ),
    inputs=(
        Port("source", "T", None, "[E, ...], one dimension at least"),
        Port("index", "I", 1, "[E] the segment of each row", computed=True),
    ),
    outputs=(
        Port("output", "T", None, "[count, ...]"),
        Port(
            "origin",
            "N",
            None,
            "of largest and smallest, as output: the row that each number comes from, the first of equals, E where there "
            "is none; of sum and mean [count, 1, ...]: how many rows a segment has",
        ),
        Port("count", "S", 0, "the largest index and one more", size=True),
    ),
    fields=(REDUCTION,),
    shape=_shape,
    bounds=_bounds,
    check=check_index,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=scatter_aliases(given=False),
    tolerance={"float32": 2e-6, "float16": 4.4e-4, "bfloat16": 3.5e-3},
    cases=CASES,
    workspace=True,
)

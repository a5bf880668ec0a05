"""Reduces rows to one row for each index, of which there is a given number: scatter of torch_scatter with dim_size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Arrays, Case, Expansion, Field, Fields, Kind, OpDef, Port, Shapes
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
from trtsmith.importers.ops.reduction._rows import MAX, MEAN, MIN, NAN_RULE, REDUCTION, SUM, Rows, rows_work


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    source, segments = shapes["source"], fields["segments"]
    return {
        "output": (segments, *source[1:]),
        "origin": origin_shape(fields["reduction"], source, segments),
    }


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    return scatter_rows(fields["reduction"], inputs, fields["segments"])


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    return torch_scatter_rows(fields["reduction"], inputs, fields["segments"])


def _expand(expansion: Expansion) -> tuple[Value, ...]:
    g = Builder(expansion.opset)
    rows = Rows(g, "source")
    segments = g.constant([expansion.fields["segments"]])
    placed = segment_rows(g, g.Cast("index", to="int64"), rows.count, segments)
    return rows.reduce(expansion.fields["reduction"], *placed, segments, origin=True)


def _into(segments: int, reduction: int) -> dict[str, int]:
    return {"segments": segments, "reduction": reduction}


BENCHMARKS = (
    # Points of a LiDAR frame to pillars and voxels: PointPillars and VoxelNeXt with dynamic voxels, SST.
    Case("pillars_max", _into(40_000, MAX), index_inputs(100_000, 40_000, 64), large=True),
    Case("pillars_mean", _into(40_000, MEAN), index_inputs(100_000, 40_000, 64), large=True),
    Case("points_mean", _into(160_000, MEAN), index_inputs(300_000, 160_000, 5), large=True),
    Case("features_sum", _into(12_000, SUM), index_inputs(120_000, 12_000, 128), large=True),
)

CASES = (
    Case("one_of_each", _into(1, SUM), index_inputs(1, 1, 1)),
    Case("sums", _into(20, SUM), index_inputs(60, 20, 8)),
    Case("means", _into(20, MEAN), index_inputs(60, 20, 16)),
    Case("largest", _into(20, MAX), index_inputs(60, 20, 24)),
    Case("smallest", _into(30, MIN), index_inputs(60, 20, 8)),
    Case("odd_columns", _into(25, MEAN), index_inputs(77, 25, 13)),
    Case("numbers_alone", _into(40, MAX), index_inputs(60, 40)),
    Case("several_dimensions", _into(12, SUM), index_inputs(40, 12, 3, 5, 2)),
    Case("several_dimensions_largest", _into(12, MAX), index_inputs(40, 12, 3, 5)),
    Case("more_columns_than_a_warp", _into(9, MAX), index_inputs(30, 9, 296)),
    Case("long_segments", _into(4, SUM), index_inputs(300, 3, 8)),
    Case("long_segments_largest", _into(4, MAX), index_inputs(300, 3, 8)),
    Case("a_segment_of_a_warp", _into(2, MEAN), index_inputs(64, 2, 12)),
    Case("a_segment_of_thousands", _into(2, MEAN), index_inputs(9000, 2, 3)),
    Case("strange_index", _into(15, SUM), index_inputs(60, 15, 8, change=strange_index)),
    Case("strange_index_largest", _into(15, MAX), index_inputs(60, 15, 8, change=strange_index)),
    Case("strange_numbers", _into(15, MAX), index_inputs(90, 15, 16, change=strange_numbers)),
    Case("no_rows", _into(3, MEAN), index_inputs(0, 3, 4)),
    Case("no_columns", _into(3, SUM), index_inputs(7, 3, 0)),
    Case("tiles", _into(700, MEAN), index_inputs(9_000, 700, 72), large=True, tiles=True),
    *BENCHMARKS,
)


INDEXED_REDUCTION = OpDef(
    name="IndexedReduction",
    doc=(
        "Rows reduced to one row for each index from 0 to segments - 1. Rows of another index count as nothing, and a "
        f"segment without rows is zero. {NAN_RULE}"
    ),
    inputs=(
        Port("source", "T", None, "[E, ...], one dimension at least"),
        Port("index", "I", 1, "[E] the segment of each row", computed=True),
    ),
    outputs=(
        Port("output", "T", None, "[segments, ...]"),
        Port(
            "origin",
            "N",
            None,
            "of largest and smallest, as output: the row that each number comes from, the first of equals, E where there "
            "is none; of sum and mean [segments, 1, ...]: how many rows a segment has",
        ),
    ),
    fields=(Field("segments", Kind.INT, "rows of the output", minimum=1), REDUCTION),
    shape=_shape,
    check=check_index,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=scatter_aliases(given=True),
    tolerance={"float32": 2e-6, "float16": 4.4e-4, "bfloat16": 3.5e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=rows_work,
    workspace=True,
)

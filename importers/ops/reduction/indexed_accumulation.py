"""Reduces rows into rows of data by index: index_add and index_reduce of PyTorch, ONNX's scatters of whole rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Arrays, Case, Expansion, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops._shared import faults_of_int32, size_faults
from trtsmith.importers.ops.reduction._indexed_reduction import (
    index_inputs,
    segment_rows,
    strange_index,
)
from trtsmith.importers.ops.reduction._rows import (
    MAX,
    MEAN,
    MIN,
    NAN_RULE,
    REDUCTION,
    SUM,
    Rows,
    reduce_rows,
    rows_work,
    source_rows,
    spoil,
)

_Make = Callable[[np.random.Generator], dict[str, np.ndarray]]


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": shapes["data"]}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    data, source = shapes.get("data"), shapes.get("source")
    if data == ():
        return ["data has no dimensions"]
    if data and source is not None and len(source) != len(data):
        return [f"source has {len(source)} dimensions, but data has {len(data)}"]
    columns = [("source", axis, "data", axis) for axis in range(1, len(data or ()))]
    rows = [("index", 0, "source", 0)] if source else []
    return size_faults(shapes, *columns, *rows) + faults_of_int32(shapes, ("data", 0), ("source", 0))


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One row of data after the other."""
    data, index, source = inputs["data"], inputs["index"].astype(np.int64), inputs["source"]
    output = data.astype(np.float64)
    members: dict[int, list[int]] = {}
    for row, segment in enumerate(index.tolist()):
        members.setdefault(segment, []).append(row)
    for segment, rows in members.items():
        if 0 <= segment < len(data):
            all_rows = np.concatenate([data[segment : segment + 1], source[rows]])
            output[segment], _ = reduce_rows(all_rows, fields["reduction"])
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """By index_add and index_reduce, of the rows whose index exists."""
    import torch

    data, index, reduction = inputs["data"], inputs["index"].long(), fields["reduction"]
    exists = (index >= 0) & (index < data.shape[0])
    segment, members = index[exists], inputs["source"][exists]
    if reduction == SUM:
        return (data.index_add(0, segment, members),)
    counts = torch.zeros(data.shape[0], dtype=torch.int64, device=data.device)
    counts.index_add_(0, segment, torch.ones_like(segment))
    wide = (-1, *[1] * (data.dim() - 1))
    if reduction == MEAN:
        number = (counts + 1).reshape(data.shape[0], *wide[1:]).to(data.dtype)
        return (data.index_add(0, segment, members) / number,)
    worst, mode = (-math.inf, "amax") if reduction == MAX else (math.inf, "amin")
    first, members = (torch.where(rows.isnan(), worst, rows) for rows in (data, members))
    places = segment.reshape(len(segment), *wide[1:]).expand_as(members)
    reduced = first.scatter_reduce(0, places, members, mode, include_self=True)
    has_rows = (counts > 0).reshape(data.shape[0], *wide[1:])
    return (torch.where(has_rows, reduced, data),)


def _expand(expansion: Expansion) -> Value:
    """Each row of data is one more row to reduce, before the others; one that stays alone is left as it is."""
    g = Builder(expansion.opset)
    sizes = g.Shape("data")
    own_index = g.Range(0, g.Gather(sizes, 0, axis=0), 1)
    index = g.Cast(g.Concat(own_index, g.Cast("index", to="int64"), axis=0), to="int64")
    rows = Rows(g, g.Concat("data", "source", axis=0))
    segments = sizes[:1]
    counts, starts, order = segment_rows(g, index, rows.count, segments)
    (reduced,) = rows.reduce(expansion.fields["reduction"], counts, starts, order, segments, origin=False)
    is_reduced = g.Reshape(g.Less([1], counts), rows.wide_shape(segments))
    return g.Where(is_reduced, reduced, "data")


def _by(reduction: int) -> dict[str, int]:
    return {"reduction": reduction}


def _into(rows: int, make: _Make, change: Callable[[Any, Any], None] | None = None) -> _Make:
    """Data of this many rows, and the source and index that `make` gives."""

    def made(rng: np.random.Generator) -> dict[str, np.ndarray]:
        inputs = make(rng)
        inputs = {"data": source_rows(rng, rows, *inputs["source"].shape[1:]), **inputs}
        if change is not None:
            change(rng, inputs)
        return {name: inputs[name] for name in ("data", "index", "source")}

    return made


def _strange_numbers(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    """Every row that is reduced keeps one number that is one: of data in even rows, of the source in odd ones."""
    spoil(rng, made["data"])
    spoil(rng, made["source"])
    segments, firsts = np.unique(made["index"], return_index=True)
    made["data"][::2] = 0.25
    odd = segments % 2 == 1
    made["source"][firsts[odd]] = 0.125
    alone = np.setdiff1d(np.arange(len(made["data"])), segments)
    made["data"][alone] = -0.5


BENCHMARKS = (
    # Messages of edges to atoms: SchNet and PaiNN on a batch of molecules, and a GCN on 50,000 nodes.
    Case("molecules_sum", _by(SUM), _into(2_048, index_inputs(40_000, 2_048, 128)), large=True),
    Case("molecules_max", _by(MAX), _into(2_048, index_inputs(40_000, 2_048, 128)), large=True),
    Case("nodes_sum", _by(SUM), _into(50_000, index_inputs(400_000, 50_000, 64)), large=True),
    Case("graphs_mean", _by(MEAN), _into(64, index_inputs(8_192, 64, 300)), large=True),
)

CASES = (
    Case("one_of_each", _by(SUM), _into(1, index_inputs(1, 1, 1))),
    Case("sums", _by(SUM), _into(20, index_inputs(60, 20, 8))),
    Case("means", _by(MEAN), _into(20, index_inputs(60, 20, 16))),
    Case("largest", _by(MAX), _into(20, index_inputs(60, 20, 24))),
    Case("smallest", _by(MIN), _into(30, index_inputs(60, 20, 8))),
    Case("odd_columns", _by(MEAN), _into(25, index_inputs(77, 25, 13))),
    Case("odd_columns_sums", _by(SUM), _into(25, index_inputs(77, 25, 7))),
    Case("numbers_alone", _by(SUM), _into(40, index_inputs(60, 40))),
    Case("numbers_alone_largest", _by(MAX), _into(40, index_inputs(60, 40))),
    Case("several_dimensions", _by(SUM), _into(12, index_inputs(40, 12, 3, 5, 2))),
    Case("several_dimensions_smallest", _by(MIN), _into(12, index_inputs(40, 12, 3, 5))),
    Case("fewer_rows_than_data", _by(SUM), _into(90, index_inputs(7, 90, 12))),
    Case("more_columns_than_a_warp", _by(MAX), _into(9, index_inputs(30, 9, 296))),
    Case("long_segments", _by(SUM), _into(4, index_inputs(300, 3, 8))),
    Case("long_segments_largest", _by(MAX), _into(4, index_inputs(300, 3, 8))),
    Case("a_segment_of_a_warp", _by(MEAN), _into(2, index_inputs(64, 2, 12))),
    Case("a_segment_of_thousands", _by(MEAN), _into(2, index_inputs(9000, 2, 3))),
    Case("strange_index", _by(SUM), _into(15, index_inputs(60, 15, 8, change=strange_index))),
    Case("strange_index_largest", _by(MAX), _into(15, index_inputs(60, 15, 8, change=strange_index))),
    Case("strange_numbers", _by(MAX), _into(25, index_inputs(90, 20, 16), _strange_numbers)),
    Case("no_rows", _by(MEAN), _into(3, index_inputs(0, 3, 4))),
    Case("no_rows_largest", _by(MAX), _into(3, index_inputs(0, 3, 4))),
    Case("no_data", _by(SUM), _into(0, index_inputs(6, 3, 4))),
    Case("no_columns", _by(SUM), _into(3, index_inputs(7, 3, 0))),
    Case("tiles", _by(SUM), _into(700, index_inputs(9_000, 700, 72)), large=True, tiles=True),
    Case("tiles_largest", _by(MIN), _into(700, index_inputs(9_000, 700, 72)), large=True, tiles=True),
    *BENCHMARKS,
)


INDEXED_ACCUMULATION = OpDef(
    name="IndexedAccumulation",
    doc=(
        "Rows of a source reduced into rows of data: each row of data with all rows of the source that have its index, as "
        "PyTorch's index_add and index_reduce do it, and ONNX's scatters of whole rows. It counts as one of the rows of a "
        "mean. Rows of an index that data does not have count as nothing, and a row of data that no row goes to is left as "
        f"it is. {NAN_RULE}"
    ),
    inputs=(
        Port("data", "T", None, "[N, ...], one dimension at least"),
        Port("index", "I", 1, "[E] the row of data that each row of the source goes to", computed=True),
        Port("source", "T", None, "[E, ...], rows as data has them"),
    ),
    outputs=(Port("output", "T", None, "as data"),),
    fields=(REDUCTION,),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    tolerance={"float32": 9e-7, "float16": 4.4e-4, "bfloat16": 3.5e-3},
    chain="scatter-rows-plugin",
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=rows_work,
    workspace=True,
)

"""Reduces the rows of consecutive segments to one row each: segment_csr of torch_scatter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
)
from trtsmith.importers.ops._shared import put_some, then
from trtsmith.importers.ops.reduction._rows import (
    MAX,
    MEAN,
    MIN,
    NAMES,
    NAN_RULE,
    REDUCTION,
    SUM,
    Rows,
    check_rows,
    reduce_rows,
    rows_work,
    source_rows,
    spoil,
    unknown_reduction,
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (shapes["offsets"][0] - 1, *shapes["source"][1:])}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    faults = check_rows(shapes)
    if shapes.get("offsets") == (0,):
        faults.append("offsets has no element, not one more than there are segments")
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One segment after the other."""
    source, ends = inputs["source"], np.clip(inputs["offsets"].astype(np.int64), 0, len(inputs["source"]))
    output = np.zeros((len(ends) - 1, *source.shape[1:]))
    for segment, (start, end) in enumerate(pairwise(ends.tolist())):
        if start < end:
            output[segment] = reduce_rows(source[start:end], fields["reduction"])[0]
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Rows as members of their segments, scattered."""
    import torch

    source, reduction = inputs["source"], fields["reduction"]
    ends = inputs["offsets"].long().clamp(0, source.shape[0])
    counts = (ends[1:] - ends[:-1]).clamp(min=0)
    segments = torch.arange(len(counts), device=source.device)
    segment = torch.repeat_interleave(segments, counts)
    begins = torch.repeat_interleave(ends[:-1] - (counts.cumsum(0) - counts), counts)
    rows = source[torch.arange(len(segment), device=source.device) + begins]
    output = source.new_zeros(len(counts), *source.shape[1:])
    wide = (-1, *[1] * (source.dim() - 1))
    if reduction in (SUM, MEAN):
        output.index_add_(0, segment, rows)
        return (output / counts.clamp(min=1).reshape(wide).to(source.dtype) if reduction == MEAN else output,)
    worst = -math.inf if reduction == MAX else math.inf
    rows = torch.where(rows.isnan(), worst, rows)
    mode = "amax" if reduction == MAX else "amin"
    return (output.scatter_reduce(0, segment.reshape(wide).expand_as(rows), rows, mode, include_self=False),)


def _expand(expansion: Expansion) -> Value:
    g = Builder(expansion.opset)
    rows = Rows(g, "source")
    offsets = g.Cast("offsets", to="int64")
    offsets = g.Where(offsets < [0], [0], offsets)
    ends = g.Where(rows.count < offsets, rows.count, offsets)
    starts = ends[:-1]
    lengths = ends[1:] - starts
    counts = g.Where(lengths < [0], [0], lengths)
    reduction = expansion.fields["reduction"]
    (output,) = rows.reduce(reduction, counts, starts, rows.numbers, g.Shape(counts), origin=False)
    return output


def _several_offsets(node: AliasedNode) -> Refusal | None:
    offsets = node.shapes.get("offsets")
    if offsets is not None and len(offsets) != 1:
        return Refusal(
            f"the offsets have {len(offsets)} dimensions",
            "one: the same segments for all of a row",
            "export the node with offsets of one dimension",
        )
    return None


def _guard(node: AliasedNode) -> Refusal | None:
    return _several_offsets(node) or unknown_reduction("reduce", node.attrs["reduce"])


def _torch_scatter(reduction: str) -> Alias:
    """Its operator of PyTorch. The largest and the smallest have a second output, which row each is from."""
    return Alias(
        op_type=f"segment_{reduction}_csr",
        domains=("torch_scatter",),
        inputs=("source", "offsets", "out?"),
        when=lambda node: "out" not in node.present,
        guard=_several_offsets,
        fields=lambda _: {"reduction": NAMES[reduction]},
        source="torch_scatter, csrc/segment_csr.cpp, exported with ONNX_FALLTHROUGH",
    )


def _inputs(lengths: list[int] | int, *columns: int, rows: int = 0, change: Any = None) -> Any:
    """Segments of those lengths, or this many of random lengths; further rows belong to none."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        sizes = np.array(lengths) if isinstance(lengths, list) else rng.integers(0, 9, lengths)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return {"source": source_rows(rng, int(offsets[-1]) + rows, *columns), "offsets": offsets}

    return then(make, change)


def _strange(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    put_some(rng, 0.3, made["offsets"], [-1, -(2**31), 2**31 - 1, 7, 2])


def _spoilt(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    spoil(rng, made["source"][1:])
    made["source"][made["offsets"][:-1]] = 0.125


def _by(reduction: int) -> dict[str, int]:
    return {"reduction": reduction}


BENCHMARKS = (
    # Pooling of Point Transformer V3 (Autoware's): voxels in twos and threes; and one of long segments.
    Case("ptv3_pooling_1", _by(MAX), _inputs(40_000, 64), large=True),
    Case("ptv3_pooling_3", _by(MAX), _inputs(6_000, 256), large=True),
    Case("ptv3_mean", _by(MEAN), _inputs(40_000, 64), large=True),
    Case("segments_of_200", _by(SUM), _inputs([200] * 500, 64), large=True),
    Case("mean_of_scans", _by(MEAN), _inputs([60_000, 40_000], 512), large=True),
)

CASES = (
    Case("one_of_each", _by(SUM), _inputs([1], 1)),
    Case("sums", _by(SUM), _inputs(30, 8)),
    Case("means", _by(MEAN), _inputs(30, 16)),
    Case("largest", _by(MAX), _inputs(30, 24)),
    Case("smallest", _by(MIN), _inputs(30, 8, rows=5)),
    Case("odd_columns", _by(MEAN), _inputs(25, 13)),
    Case("one_column", _by(MAX), _inputs(40, 1)),
    Case("several_dimensions", _by(SUM), _inputs(12, 3, 5, 2)),
    Case("more_columns_than_a_warp", _by(MAX), _inputs(9, 296)),
    Case("more_odd_columns_than_a_warp", _by(SUM), _inputs(9, 71)),
    Case("long_segments", _by(SUM), _inputs([0, 150, 3, 0, 97, 0], 8)),
    Case("long_means", _by(MEAN), _inputs([150, 33, 32, 31], 5)),
    Case("few_segments", _by(MEAN), _inputs([700, 0, 3, 900], 8)),
    Case("few_segments_largest", _by(MAX), _inputs([700, 0, 900], 24)),
    Case("few_segments_smallest", _by(MIN), _inputs([333, 500], 5)),
    Case("few_segments_strange_numbers", _by(MAX), _inputs([400, 333], 16, change=_spoilt)),
    Case("strange_offsets", _by(SUM), _inputs(20, 6, change=_strange)),
    Case("strange_numbers", _by(MAX), _inputs([3, 5, 1, 4, 40], 16, change=_spoilt)),
    Case("no_rows", _by(MEAN), _inputs([0, 0, 0], 4)),
    Case("no_segments", _by(SUM), _inputs([], 4, rows=3)),
    Case("no_columns", _by(MAX), _inputs(5, 0)),
    Case("tiles", _by(MEAN), _inputs(700, 72), large=True, tiles=True),
    *BENCHMARKS,
)


SEGMENT_REDUCTION = OpDef(
    name="SegmentReduction",
    doc=(
        "The rows of consecutive segments reduced to one row each. A segment has the rows from its offset to the one before "
        f"the next offset; offsets outside count as the nearest end, and one without rows is zero. {NAN_RULE}"
    ),
    inputs=(
        Port("source", "T", None, "[E, ...], one dimension at least"),
        Port(
            "offsets", "I", 1, "[S + 1] the first row of each segment, and the end of the last", computed=True
        ),
    ),
    outputs=(Port("output", "T", None, "[S, ...]"),),
    fields=(REDUCTION,),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="SegmentCSR",
            domains=("autoware",),
            inputs=("source", "offsets"),
            attributes=(Attr("reduce", Kind.STRING),),
            guard=_guard,
            fields=lambda node: {"reduction": NAMES[node.attrs["reduce"]]},
            source="Autoware, autoware_tensorrt_plugins, segment_csr; AWML and autoware-ml, PTv3",
        ),
        *map(_torch_scatter, ("sum", "mean", "max", "min")),
    ),
    tolerance={"float32": 2e-6, "float16": 4.4e-4, "bfloat16": 3.5e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=rows_work,
    workspace=True,
)

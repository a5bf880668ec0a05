"""Reduces rows by index in numpy, in PyTorch and in standard ONNX, for any number of segments.

Lists the forms in which other tools write the reduction of rows by index.

torch_scatter has no nodes of its own: these are of exporters that were written for it, each with what it passes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Alias, AliasedNode, Arrays, Attr, Fields, Kind, Refusal, attrs
from trtsmith.importers.ops._shared import put_some, size_faults, then
from trtsmith.importers.ops.reduction._rows import (
    MAX,
    MEAN,
    NAMES,
    SUM,
    check_rows,
    reduce_rows,
    source_rows,
    spoil,
    unknown_reduction,
)


def _index_refusal(node: AliasedNode) -> Refusal | None:
    """torch_scatter also takes an index for each element."""
    index = node.shapes.get("index")
    if index is None or len(index) == 1:
        return None
    return Refusal(
        f"the index has {len(index)} dimensions",
        "one index for each row",
        "export the node with the index before it is broadcast",
    )


def _guard(
    reduction: Callable[[AliasedNode], str], attribute: str = "reduce"
) -> Callable[[AliasedNode], Refusal | None]:
    """torch_scatter takes the last dimension where none is given."""

    def guard(node: AliasedNode) -> Refusal | None:
        if node.attrs.get("dim", 0) != 0:
            return Refusal(
                f"dim = {node.attrs['dim']}",
                "dim = 0: whole rows",
                "transpose the rows to the front, and say dim = 0",
            )
        return _index_refusal(node) or unknown_reduction(attribute, reduction(node))

    return guard


def _fields(reduction: Callable[[AliasedNode], str], *, given: bool) -> Callable[[AliasedNode], Fields]:
    def fields(node: AliasedNode) -> Fields:
        made = {"reduction": NAMES[reduction(node)]}
        return made | {"segments": node.attrs["dim_size"]} if given else made

    return fields


def _torch_scatter(name: str, *, given: bool) -> Alias:
    """Values and positions of the largest and the smallest; dim_size is -1 where it follows from the index."""
    reduction = name.removeprefix("scatter_")
    return Alias(
        op_type=name,
        domains=("torch_scatter", "dpvo"),
        inputs=("source", "index"),
        outputs=("output", "origin") if reduction in ("max", "min") else ("output",),
        attributes=attrs(dim=-1, dim_size=-1),
        when=lambda node: (node.attrs["dim_size"] > 0) == given,
        guard=_guard(lambda _: reduction),
        fields=_fields(lambda _: reduction, given=given),
        source=f"{name} of torch_scatter as PyTorch's test of its exporter and DPVO's exporter write it",
    )


def scatter_aliases(*, given: bool) -> tuple[Alias, ...]:
    """Lists the aliases of scatter. given: those with a number of segments; else those that take it from the index."""
    named = tuple(
        _torch_scatter(f"scatter_{name}", given=given) for name in ("max", "min", "sum", "add", "mean")
    )
    if given:
        return named
    everything = Alias(
        op_type="scatter_all",
        domains=("zf",),
        inputs=("source", "index"),
        outputs=("output",),
        attributes=(Attr("value", Kind.STRING),),
        guard=_guard(lambda node: node.attrs["value"], "value"),
        fields=_fields(lambda node: node.attrs["value"], given=False),
        source="an exporter of LiDAR detectors with dynamic voxels, domain zf",
    )
    largest = Alias(
        op_type="ScatterMax",
        domains=("plugin",),
        inputs=("source", "index"),
        outputs=("output",),
        attributes=(Attr("dim", Kind.INT),),
        guard=_guard(lambda _: "max"),
        fields=_fields(lambda _: "max", given=False),
        source="VectorNet's exporter, domain plugin",
    )
    return (*named, everything, largest)


def origin_shape(reduction: int, source: tuple[Any, ...], segments: Any) -> tuple[Any, ...]:
    return (segments, *(source[1:] if reduction >= MAX else [1] * (len(source) - 1)))


def check_index(_fields: Fields, shapes: Any) -> list[str]:
    if shapes.get("source") == ():
        return check_rows(shapes)
    return size_faults(shapes, ("index", 0, "source", 0)) or check_rows(shapes)


def scatter_rows(reduction: int, inputs: Arrays, segments: int) -> dict[str, np.ndarray]:
    """Reduces one segment after the other."""
    source, index = inputs["source"], inputs["index"].astype(np.int64)
    output = np.zeros((segments, *source.shape[1:]))
    origin = np.zeros(origin_shape(reduction, source.shape, segments), np.int64)
    origin += len(source) if reduction >= MAX else 0
    members: dict[int, list[int]] = {}
    for row, segment in enumerate(index.tolist()):
        members.setdefault(segment, []).append(row)
    for segment, rows in members.items():
        if 0 <= segment < segments:
            output[segment], best = reduce_rows(source[rows], reduction)
            origin[segment] = np.array(rows)[best] if reduction >= MAX else len(rows)
    return {"output": output, "origin": origin}


def torch_scatter_rows(reduction: int, inputs: Mapping[str, Any], segments: int) -> tuple[Any, Any]:
    """Reduces by index_add and scatter_reduce. Among equal numbers, the first row wins."""
    import torch

    source, index = inputs["source"], inputs["index"].long()
    rows = source.shape[0]
    exists = (index >= 0) & (index < segments)
    segment, members = index[exists], source[exists]
    output = source.new_zeros(segments, *source.shape[1:])
    wide = (-1, *[1] * (source.dim() - 1))
    counts = torch.zeros(segments, dtype=torch.int64, device=source.device)
    counts.index_add_(0, segment, torch.ones_like(segment))
    if reduction in (SUM, MEAN):
        output.index_add_(0, segment, members)
        output = output / counts.clamp(min=1).reshape(wide).to(source.dtype) if reduction == MEAN else output
        return output, counts.reshape(wide)
    worst = -math.inf if reduction == MAX else math.inf
    members = torch.where(members.isnan(), worst, members)
    places = segment.reshape(wide).expand_as(members)
    mode = "amax" if reduction == MAX else "amin"
    output = output.scatter_reduce(0, places, members, mode, include_self=False)
    number = torch.arange(rows, device=source.device)[exists].reshape(wide).expand_as(members)
    candidates = torch.where(members == output.gather(0, places), number, rows)
    origin = torch.full(output.shape, rows, dtype=torch.int64, device=source.device)
    return output, origin.scatter_reduce(0, places, candidates, "amin")


def segment_rows(g: Builder, index: Value, count: Value, segments: Value) -> tuple[Value, Value, Value]:
    """Returns the segments' counts and starts, and the order of `count` rows that brings each segment's rows together.

    index: the segment of each row, int64 [E]; a stable sort: TopK's lower index comes first among equals.
    """
    exists = ~(index < [0]) & (index < segments)
    index, order = g.TopK(g.Where(exists, index, segments), count, axis=0, largest=0, sorted=1, outputs=2)
    found, _, _, found_counts = g.Unique(g.Concat(index, segments, axis=0), sorted=1, outputs=4)
    no_counts = g.Expand([0], g.Add(segments, [1]))
    counts = g.Slice(g.ScatterElements(no_counts, found, found_counts, axis=0), [0], segments)
    return counts, g.CumSum(counts, 0, exclusive=1), order


def index_inputs(rows: int, segments: int, *columns: int, change: Any = None, dense: bool = False) -> Any:
    """Makes rows of random segments. dense: every segment has at least one row, as in the inverse of a Unique."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        index = rng.integers(0, segments, rows)
        if dense:
            index[rng.permutation(rows)[:segments]] = np.arange(segments)
        return {"source": source_rows(rng, rows, *columns), "index": index}

    return then(make, change)


def strange_index(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    """Puts numbers of segments that do not exist into the index."""
    put_some(rng, 0.3, made["index"], [-1, -(2**31), 2**31 - 1, 10**6])


def strange_numbers(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    """Puts NaN and infinity among the numbers, but leaves every segment one finite number."""
    _, firsts = np.unique(made["index"], return_index=True)
    spoil(rng, made["source"])
    made["source"][firsts] = 0.125

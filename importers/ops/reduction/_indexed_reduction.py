"""Computes the reduction of rows by index in numpy, in PyTorch and in standard ONNX, for any number of segments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.ops.reduction._rows import MAX, MEAN, SUM, check_rows, reduce_rows, source_rows, spoil


def origin_shape(reduction: int, source: tuple[Any, ...], segments: Any) -> tuple[Any, ...]:
    return (segments, *(source[1:] if reduction >= MAX else [1] * (len(source) - 1)))


def check_index(shapes: Any) -> list[str]:
    source, index = shapes.get("source"), shapes.get("index")
    if source and index and None not in (source[0], index[0]) and source[0] != index[0]:
        return [f"index[0] = {index[0]}, but source[0] = {source[0]}"]
    return check_rows(shapes)


def scatter_rows(reduction: int, inputs: Arrays, segments: int) -> dict[str, np.ndarray]:
    """One segment after the other."""
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
    """By index_add and scatter_reduce; of equal numbers the first row is the smallest of those that are equal."""
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
    """Counts and starts of the segments, and the order of `count` rows that brings those of each together.

    index: the segment of each row, int64 [E]; a stable sort: TopK's lower index comes first among equals.
    """
    exists = ~(index < [0]) & (index < segments)
    index, order = g.TopK(g.Where(exists, index, segments), count, axis=0, largest=0, sorted=1, outputs=2)
    found, _, _, found_counts = g.Unique(g.Concat(index, segments, axis=0), sorted=1, outputs=4)
    no_counts = g.Expand([0], g.Add(segments, [1]))
    counts = g.Slice(g.ScatterElements(no_counts, found, found_counts, axis=0), [0], segments)
    return counts, g.CumSum(counts, 0, exclusive=1), order


def index_inputs(rows: int, segments: int, *columns: int, change: Any = None, dense: bool = False) -> Any:
    """Rows of any segments; dense: every segment has one at least, as the inverse of a Unique has it."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        index = rng.integers(0, segments, rows)
        if dense:
            index[rng.permutation(rows)[:segments]] = np.arange(segments)
        made = {"source": source_rows(rng, rows, *columns), "index": index}
        if change is not None:
            change(rng, made)
        return made

    return make


def strange_index(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    """Some that no segment has."""
    chosen = rng.random(len(made["index"])) < 0.3
    made["index"][chosen] = rng.choice([-1, -(2**31), 2**31 - 1, 10**6], int(chosen.sum()))


def strange_numbers(rng: np.random.Generator, made: dict[str, np.ndarray]) -> None:
    """Every segment keeps one number that is one."""
    _, firsts = np.unique(made["index"], return_index=True)
    spoil(rng, made["source"])
    made["source"][firsts] = 0.125

"""Samples the points of a cloud that are farthest from each other (Qi et al., PointNet++, arXiv 1706.02413, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._shared import flag
from trtsmith.importers.ops.points._clouds import (
    POINTS,
    by_axis,
    cloud_faults,
    lattice,
    scattered,
    spoilt,
    squares_from,
    three_axes,
)

FAR_AWAY = 1e10
"""The square of the distance from no point at all, as in the public kernels: no point is farther."""

ORIGIN = 1e-3
"""The square of the distance from the origin within which Pointnet2 passes over points, which stand for padding there."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"indices": (shapes["points"][0], fields["samples"])}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = [*cloud_faults(shapes), *three_axes(shapes)]
    if "points" in shapes and shapes["points"][1] == 0:
        faults.append("points[1] = 0, and the first sample is point 0")
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One sample after the other."""
    indices = np.zeros((len(inputs["points"]), fields["samples"]), np.int32)
    for cloud, taken in zip(by_axis(inputs["points"]), indices, strict=True):
        usable = np.isfinite(cloud).all(axis=0)
        with np.errstate(invalid="ignore"):
            if fields["skip_origin"]:
                usable &= (cloud**2).sum(axis=0) > ORIGIN
            least = np.where(usable, FAR_AWAY, -1.0)
            for i in range(1, fields["samples"]):
                least = np.fmin(least, squares_from(cloud[:, taken[i - 1]], cloud))
                taken[i] = least.argmax()
    return {"indices": indices}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """All clouds at once. The lowest of equals is asked for, as argmax promises none."""
    import torch

    points = inputs["points"].double()
    numbers = torch.arange(points.shape[1], device=points.device)
    passed = ~points.isfinite().all(2)
    if fields["skip_origin"]:
        passed |= points.square().sum(2) <= ORIGIN
    least = torch.full(points.shape[:2], FAR_AWAY, dtype=torch.float64, device=points.device)
    least = least.masked_fill(passed, -1)
    taken = [numbers.new_zeros(len(points))]
    while len(taken) < fields["samples"]:
        last = points.take_along_dim(taken[-1][:, None, None], 1)
        least = least.fmin((points - last).square().sum(2))
        farthest = least == least.amax(1, keepdim=True)
        taken.append(numbers.where(farthest, points.shape[1]).amin(1))
    return (torch.stack(taken, 1).int(),)


def _expand(expansion: Expansion) -> Value:
    """A Loop that notes a sample and looks for the next, which is a step more than there need be."""
    g = Builder(expansion.opset)
    finite = g.Abs("points") < np.float32(np.inf)
    usable = g.ReduceMin(g.Cast(finite, to="int32"), axes=[2], keepdims=0)
    known = g.Where(finite, "points", 0.0)
    if expansion.fields["skip_origin"]:
        lengths = g.ReduceSum(known * known, axes=[2], keepdims=0)
        usable = usable * g.Cast(g.Not(lengths < np.float32(ORIGIN)), to="int32")
    least = g.Where(g.Cast(usable, to="bool"), FAR_AWAY, -1.0)
    batch = g.Shape("points")[:1]

    def step(k: Value, go: Value, least: Value, last: Value) -> list[Value]:
        place = g.GatherElements("points", g.Expand(g.Unsqueeze(last, axes=[2]), [1, 1, 3]), axis=1)
        apart = g.Sub("points", place)
        squares = g.ReduceSum(apart * apart, axes=[2], keepdims=0)
        nearer = g.Where(squares < least, squares, least)
        return [go, nearer, g.ArgMax(nearer, axis=1, keepdims=1), last]

    body = g.graph(
        "(int64 k, bool go, float[B, N] least, int64[B, 1] last)"
        " => (bool go_on, float[B, N] left, int64[B, 1] next, int64[B, 1] taken)",
        step,
    )
    first = g.Expand(0, [batch, 1])
    taken = g.Loop(expansion.fields["samples"], True, least, first, body=body, outputs=3)[2]
    by_cloud = g.Transpose(g.Squeeze(taken, axes=[2]), perm=[1, 0])
    return g.Cast(by_cloud, to="int32")


def _case(
    name: str, shape: tuple[int, int], samples: int, steps: int = 8, skip_origin: int = 0, **marks: bool
) -> Case:
    make = lattice(*shape, 3, steps=steps)
    return Case(
        name, {"samples": samples, "skip_origin": skip_origin}, lambda rng: {"points": make(rng)}, **marks
    )


def _large(name: str, batch: int, points: int, samples: int) -> Case:
    fields = {"samples": samples, "skip_origin": 0}
    return Case(name, fields, lambda rng: {"points": scattered(rng, batch, points, 3)}, large=True)


def _strange(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"points": spoilt(lattice(2, 40, 3)(rng))}


def _work(fields: Fields, shapes: Shapes) -> Work:
    """Of each step and point a distance, the lesser of two, and a comparison."""
    batch, points, _ = shapes["points"]
    return Work(flops=10 * batch * points * (fields["samples"] - 1))


_BENCHMARKS = (
    # PointNet++'s first layer on 16,384 points of KITTI (PointRCNN) and a batch of clouds as VoteNet has them; a sweep.
    _large("clouds_8x16384", 8, 16384, 4096),
    _large("votenet_8x20000", 8, 20000, 2048),
    _large("sweep_100000", 1, 100_000, 4096),
)

FARTHEST_POINT_SAMPLING = OpDef(
    name="FarthestPointSampling",
    doc=(
        "The numbers of points that are far from each other: point 0, and then always the point that is farthest from those "
        "that were taken; of equally far ones the lowest number, also where nothing but points at distance zero is left. A "
        "point with a coordinate that is not finite is taken last."
    ),
    inputs=(POINTS,),
    outputs=(Port("indices", "S", 2, "[B, samples]"),),
    fields=(
        Field("samples", Kind.INT, "points to take of each cloud", minimum=1),
        flag(
            "skip_origin",
            "1: points whose squared distance from the origin is at most 1e-3 are taken last, too",
        ),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    chain="stock-point-clouds",
    cases=(
        _case("one_of_each", (1, 1), 1),
        _case("more_samples_than_points", (2, 3), 9),
        _case("equally_far", (3, 41), 20, steps=1),
        _case("odd", (2, 301), 33),
        _case("many_samples", (2, 333), 160),
        _case("all_skipped", (2, 7), 4, steps=0, skip_origin=1),
        _case("skip_origin", (3, 70), 25, steps=2, skip_origin=1),
        Case("strange_points", {"samples": 40, "skip_origin": 0}, _strange),
        _case("several_blocks", (2, 2601), 12, steps=4000),
        _case("streamed", (1, 110_000), 3, steps=4000),
        _case("no_clouds", (0, 5), 3),
        *(_case(f"points_{n}", (2, n), 150, steps=4000, large=True) for n in (513, 5003, 12_801, 30_011)),
        _case("streamed_clouds", (2, 130_001), 40, steps=4000, large=True, tiles=True),
        *_BENCHMARKS,
    ),
    benchmarks=_BENCHMARKS,
    work=_work,
    workspace=True,
)

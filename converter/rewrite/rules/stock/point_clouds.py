"""Rewrites operators on point clouds, of Pointnet2, mmcv and torch_cluster, as comparisons of all pairs, TopK and GatherND.

Counts of points are below 2^24, so that float32 holds a point's number. Sources:
- erikwijmans/Pointnet2_PyTorch, pointnet2_ops_lib/pointnet2_ops/_ext-src/src/{sampling,group_points,interpolate,
  ball_query}_gpu.cu: features are [B, C, N], indices int32. A ball has the first points within the radius in the cloud's
  order; spare places repeat the first, and a ball without points has point 0.
- Exporters of these to ONNX (SAM-6D's for OpenVINO, notebooks and tests of its extensions): BallQuery of new_xyz, xyz with
  attributes, or of radius, nsample, xyz, new_xyz. Attributes of GroupingOperation are sizes of a first example.
- open-mmlab/mmcv, mmcv/ops/{ball_query,knn,three_nn}.py and csrc/common/cuda/{ball_query,knn,three_nn}_cuda_kernel.cuh: a
  ball between two radii also has its middle; ThreeNN gives distances, not their squares. No exporter was found: users'
  own nodes have the inputs in the order of `forward`, and numbers as attributes under their names there.
- rd3d: BallQuery of xyz, new_xyz gives the number of points found, too, and indices in int64.
- FurthestPointSampling of Pointnet2 (no domain) passes over points within 0.0316 of the origin, that of mmcv and rd3d's
  FPSampling do not. Of points equally far away, the lowest number comes first, where the kernels' order is that of threads.
- rusty1s/pytorch_cluster, csrc/cuda/knn_cuda.cu: pairs (row of y, row of x), the nearest first, of two equally near ones the
  lower row.

Pooling of Point Transformer V3: autowarefoundation/autoware_universe, perception/autoware_tensorrt_plugins, src/ptv3_ops and
src/scatter_ops: rows in the order of `indices`, reduced segment by segment, and the means of their coordinates.

Selections of rows: NVIDIA/DL4AGX, AV-Solutions/vad-trt, SelectAndPadPlugin: the first P rows that a flag marks, in order,
and the row `invalid` in spare places.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    Plugin,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)
from trtsmith.importers.opdef import AliasedNode
from trtsmith.importers.registry import OPS

_OPSET = 12
"""The first one whose GatherND knows batches."""

_NOWHERE = float(1 << 24)
"""In place of a point's number, behind all of them."""

_FIRST = (
    "of points equally far away the lowest number comes first; the kernels' order is that of their threads"
)
_SLOW = ("one step a point that is taken, one after the other: slow for thousands of them",)
_TIES = (
    "of equally near points the lower number comes first; mmcv's kernel takes them in the order of its heap"
)


def _rows(w: Writer, table: Value, index: Value) -> Value:
    """table [B, N, C] at index [B, ...]: [B, ..., C]."""
    require_opset(w.node, _OPSET, "GatherND with batches")
    return w.GatherND(table, w.Unsqueeze(w.Cast(index, to="int64"), axes=[-1]), batch_dims=1)


def _by_rows(features: Value) -> Value:
    return features.builder.write("Transpose", features, perm=[0, 2, 1])


def _squares(w: Writer, queries: Value, points: Value, width: int) -> Value:
    """Squared distances [B, M, N] of queries [B, M, width] and points [B, N, width], summed in the order of the axes."""
    squares = []
    pairs = zip(w.split(queries, [1] * width, 2), w.split(_by_rows(points), [1] * width, 1), strict=True)
    for query, point in pairs:
        apart = w.Sub(query, point)
        squares.append(w.Mul(apart, apart))
    return reduce(w.Add, squares)


def _nearest(w: Writer, squares: Value, count: int) -> tuple[Value, Value]:
    """The least of each row, and where they are; of equal ones the first."""
    least, places = w.TopK(squares, [count], axis=-1, largest=0, sorted=1, outputs=2)
    return least, places


def _first(w: Writer, marked: Value, count: int, rank: int) -> Value:
    """Places of the first `count` marked elements of the last axis as float32, in order, with _NOWHERE behind them."""
    numbers = w.Cast(w.arange(w.size(marked, rank - 1)), to="float32")
    keys = w.Where(marked, numbers, _NOWHERE)
    more = [0] * (2 * rank - 1) + [count]
    return _nearest(w, w.pad(keys, more, _NOWHERE, "float32"), count)[0]


def _gather(w: Writer, dtype: str) -> Value | Refusal:
    rank = w.node.rank(1)
    if rank is None:
        return unknown(w.node, 1, "the rank")
    found = _rows(w, _by_rows(w.x[0]), w.x[1])
    return w.Transpose(found, perm=[0, rank, *range(1, rank)])


def _interpolate(w: Writer, dtype: str) -> Value:
    weights = w.Unsqueeze(wide(w, 2), axes=[3])
    near = _rows(w, _by_rows(wide(w, 0)), w.x[1])
    return narrow(w, _by_rows(w.reduce("ReduceSum", w.Mul(near, weights), [2], keepdims=False)), dtype)


def _three_nearest(w: Writer, dtype: str) -> Replacement | Refusal:
    if w.node.domain != "mmcv":
        return Refusal(
            "exporters of ThreeNN differ: some mean distances, some their squares",
            "mmcv's ThreeNN, which gives distances",
            "write mmcv::ThreeNN, with a square behind it if the model has squares",
        )
    settings(w.node)
    _enough(w.node, 1, 1, 3)
    least, places = _nearest(w, _squares(w, wide(w, 0), wide(w, 1), 3), 3)
    found = narrow(w, w.Sqrt(least), dtype), w.Cast(places, to="int32")
    return Replacement(w.finish(*found), "TopK of distances")


def _enough(node: NodeView, index: int, axis: int, least: int) -> None:
    """RefusedError: an operand has fewer points than are asked for, or an unknown number of them."""
    dims = node.shape(index)
    count = dims[axis] if dims is not None and len(dims) > axis else None
    if count is None:
        raise RefusedError(unknown(node, index, "the number of points, a size,"))
    if count < least:
        reason = f"{least} neighbours are asked for, and {node.input(index)!r} has {count} points"
        raise RefusedError(Refusal(reason, f"{least} points or more", "export the model with more points"))


def _neighbours(w: Writer, dtype: str) -> Replacement:
    given = settings(w.node, k=int, transposed=0)
    swapped, middles = bool(given["transposed"]), min(1, len(w.x) - 1)
    _enough(w.node, 0, 2 if swapped else 1, given["k"])
    points, queries = (_by_rows(wide(w, i)) if swapped else wide(w, i) for i in (0, middles))
    places = _nearest(w, _squares(w, queries, points, 3), given["k"])[1]
    return Replacement(w.finish(_by_rows(w.Cast(places, to="int32"))), "TopK of distances", numerics=_TIES)


def _number(node: NodeView, index: int, what: str) -> float:
    value = node.constant(index)
    if value is None or value.size != 1:
        fix = f"freeze it: --freeze {node.input(index)}=VALUE"
        raise RefusedError(
            Refusal(f"{what} ({node.input(index)!r}) is no constant number", "a constant", fix)
        )
    return float(value.reshape(-1)[0])


def _cluster_pairs(w: Writer, dtype: str) -> Value | Refusal:
    node, dims = w.node, w.node.shape(0)
    settings(node)
    bounds = [node.constant(i) for i in (2, 3) if node.input(i)]
    if any(bound is None or bound.size != 2 for bound in bounds):
        return Refusal(
            "it has several clouds, or their bounds are computed at run time",
            "one cloud: ptr_x and ptr_y left out, or constants of two numbers",
            "export the model for one cloud",
        )
    if node.input(5) and _number(node, 5, "cosine"):
        return Refusal(
            "cosine is set", "Euclidean distances", "divide the rows by their lengths ahead of the node"
        )
    width, count = (dims[1] if dims and len(dims) == 2 else None), int(_number(node, 4, "k"))
    if not width:
        return unknown(node, 0, "the last size")
    _enough(node, 0, 0, count)
    points, queries = (w.Unsqueeze(wide(w, i), axes=[0]) for i in (0, 1))
    places = w.Reshape(_nearest(w, _squares(w, queries, points, width), count)[1], shape=[-1])
    row = w.Reshape(w.arange(w.size(w.x[1], 0)), shape=[-1, 1])
    rows = w.Reshape(w.Expand(row, [1, count]), shape=[-1])
    return w.Concat(*(w.Unsqueeze(part, axes=[0]) for part in (rows, places)), axis=0)


def _ball(w: Writer, dtype: str) -> Replacement | Refusal:
    """Which form it is, the node's own attributes, outputs and operands say: domains get lost on the way."""
    node, inner, counted = w.node, 0.0, len(w.node.outputs) > 1
    points, middles = 0, 1
    if node.given("max_radius"):
        given = settings(node, min_radius=0.0, max_radius=float, sample_num=int)
        inner, radius, most = (given[name] for name in ("min_radius", "max_radius", "sample_num"))
    elif len(node.inputs) == 4:
        settings(node)
        radius, most = _number(node, 0, "radius"), int(_number(node, 1, "nsample"))
        points, middles = 2, 3
    else:
        given = settings(node, radius=float, nsample=int)
        radius, most = given["radius"], given["nsample"]
        points, middles = (0, 1) if counted or node.domain == "rd3d" else (1, 0)
    sizes = [
        dims[1] if dims and len(dims) > 1 else None for dims in (node.shape(middles), node.output_shape(0))
    ]
    if None not in sizes and sizes[0] != sizes[1]:
        return Refusal(
            f"it gives {sizes[1]} balls, and its operand of middles, {node.input(middles)!r}, has {sizes[0]}",
            "as many balls as middles",
            "swap the node's operands, or correct the shape of its output",
        )
    squares = _squares(w, wide(w, middles), wide(w, points), 3)
    inside = w.Less(squares, np.float32(radius) * np.float32(radius))
    if inner > 0:
        beyond = w.Not(w.Less(squares, np.float32(inner) * np.float32(inner)))
        inside = w.Or(w.And(inside, beyond), w.Not(w.Greater(squares, 0.0)))
    places = _first(w, inside, most, 3)
    found = w.Less(places, _NOWHERE)
    first = w.slice(places, [0], [1], [2])
    filled = w.Where(found, places, w.Where(w.Less(first, _NOWHERE), first, 0.0))
    if not counted:
        return Replacement(w.finish(w.Cast(filled, to="int32")), "TopK of points in range")
    number = w.reduce("ReduceSum", w.Cast(found, to="int32"), [2], keepdims=False)
    notes = (
        "spare places repeat the first point; rd3d's TensorRT plugin repeats all points of the ball in turn",
    )
    return Replacement(w.finish(number, w.Cast(filled, to="int64")), "TopK of points in range", notes)


def _farthest(w: Writer, dtype: str) -> Replacement:
    """Step by step the point that is farthest from those that were taken, from point 0 on: a Loop."""
    node = w.node
    if len(node.inputs) == 2:
        settings(node)
        most = int(_number(node, 1, "npoint"))
    else:
        name = {"FPSampling": "sample_num"}.get(
            node.op_type, "num_points" if node.given("num_points") else "npoint"
        )
        most = settings(node, **{name: int})[name]
    _enough(node, 0, 1, most)
    points = wide(w, 0)
    batch = w.size(points, 0)
    first = w.Expand(0, [batch, 1])
    lengths = w.reduce("ReduceSum", w.Mul(points, points), [2], keepdims=False)
    skipped = node.op_type == "FurthestPointSampling" and node.domain not in ("mmcv", "mmdeploy")
    least = w.Where(w.Greater(lengths, 1e-3 if skipped else -1.0), 1e10, -1.0)

    def step(count: Value, go: Value, least: Value, last: Value) -> list[Value]:
        near = _squares(w, _rows(w, points, last), points, 3)
        least = w.Min(least, w.Squeeze(near, axes=[1]))
        farthest = w.ArgMax(least, axis=1, keepdims=1)
        return [go, least, farthest, farthest]

    body = w.graph(
        "(int64 k, bool go, float[B, N] least, int64[B, 1] last)"
        " => (bool go_on, float[B, N] left, int64[B, 1] next, int64[B, 1] taken)",
        step,
    )
    taken = w.Loop(most - 1, True, least, first, body=body, outputs=3)[2]
    numbers = w.Concat(first, w.Transpose(w.Squeeze(taken, axes=[2]), perm=[1, 0]), axis=1)
    return Replacement(
        w.finish(w.Cast(numbers, to="int32")), "a Loop of distances and ArgMax", _SLOW, numerics=_FIRST
    )


def _select(w: Writer, dtype: str) -> Value:
    most = settings(w.node, P=int)["P"]
    places = _first(w, w.Cast(w.x[1], to="bool"), most, 2)
    last = w.Cast(w.size(w.x[0], 1), to="float32")
    batch = w.Concat(w.size(w.x[0], 0), [1, 1], axis=0)
    spare = w.Expand(w.Reshape(w.x[2], shape=[1, 1, -1]), batch)
    return _rows(w, w.Concat(w.x[0], spare, axis=1), w.Min(places, last))


def _pooled(w: Writer, dtype: str) -> Replacement | Refusal:
    """Autoware's plugin of one reduction, for the features and for the coordinates."""
    op, alias = next((op, alias) for op in OPS for alias in op.aliases if alias.op_type == "SegmentCSR")
    made: list[Value] = []
    for index, reduce_by in enumerate((settings(w.node, reduce=str)["reduce"], "mean")):
        as_alias = AliasedNode({"reduce": reduce_by}, frozenset())
        if alias.guard and (refusal := alias.guard(as_alias)):
            return refusal
        rows = w.Gather(w.x[index], w.x[2], axis=0)
        made += plugin_outputs(w, op, [rows, w.x[3]], alias.fields(as_alias))
    return Replacement(w.finish(*made), f"Gather and two plugins {op.name}")


_POINTS = {
    **dict.fromkeys(
        ("GatherOperation", "GatherPoints", "GroupingOperation", "GroupPoints"),
        Plugin(_gather, "GatherND", 2),
    ),
    "ThreeInterpolate": Plugin(_interpolate, "GatherND and a weighted sum", 3, floats=(0, 2)),
    "ThreeNN": Plugin(_three_nearest, least=2, floats=(0, 1), results=2),
    "KNN": Plugin(_neighbours, most=2),
    "BallQuery": Plugin(_ball, least=2, most=4, floats=(), results=2),
    "knn": Plugin(_cluster_pairs, "TopK of distances", 2, 7, floats=(0, 1)),
    **dict.fromkeys(("FurthestPointSampling", "FPSampling"), Plugin(_farthest, most=2)),
    **dict.fromkeys(
        ("GatherSegmentCSR", "PTv3SerializedPooling"), Plugin(_pooled, least=4, floats=(0, 1), results=2)
    ),
    "SelectAndPadPlugin": Plugin(_select, "TopK of flagged rows and GatherND", 3, floats=(0, 2), alike=True),
}

STOCK_POINT_CLOUDS = NodeRule(
    "stock-point-clouds",
    "gathers, neighbours and balls of point clouds, and VAD's selection of rows, become TopK and GatherND",
    (
        *kinds("GatherOperation", "GroupingOperation", "ThreeInterpolate", "ThreeNN"),
        *kinds("GatherPoints", "GroupPoints", domains=("mmdeploy",)),
        *kinds("BallQuery", domains=("rd3d", "mmcv")),
        *kinds("FurthestPointSampling", domains=("mmdeploy", "mmcv")),
        *kinds("FPSampling", domains=("rd3d",)),
        *kinds("SelectAndPadPlugin", domains=("custom_op",)),
        *kinds("GatherSegmentCSR", "PTv3SerializedPooling", domains=("autoware",)),
        "mmcv::ThreeNN",
        "mmcv::KNN",
        "torch_cluster::knn",
    ),
    rewriter(_POINTS),
    opset=_OPSET,
)

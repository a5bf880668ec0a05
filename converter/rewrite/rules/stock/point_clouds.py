"""Rewrites point cloud operators of Pointnet2, mmcv and torch_cluster as plugins, and as GatherND and sums.

Which plugin's form a node has, its domain, operands, attributes and outputs say. Sources:
- erikwijmans/Pointnet2_PyTorch, pointnet2_ops_lib/pointnet2_ops/_ext-src/src/{sampling,group_points,interpolate,
  ball_query}_gpu.cu: features are [B, C, N], indices int32.
- Exporters of these to ONNX (SAM-6D's for OpenVINO, notebooks and tests of its extensions): BallQuery of new_xyz, xyz with
  attributes, or of radius, nsample, xyz, new_xyz. Attributes of GroupingOperation are sizes of a first example.
- open-mmlab/mmcv, mmcv/ops/{ball_query,knn,three_nn}.py and csrc/common/cuda/{ball_query,knn,three_nn}_cuda_kernel.cuh: a
  ball between two radii also has its middle; ThreeNN gives distances, not their squares. No exporter was found: users'
  own nodes have the inputs in the order of `forward`, and numbers as attributes under their names there.
- rd3d: BallQuery of xyz, new_xyz gives the number of points found, too, and indices in int64.
- FurthestPointSampling of Pointnet2 (no domain) passes over points within 0.0316 of the origin, that of mmcv and rd3d's
  FPSampling do not.
- rusty1s/pytorch_cluster, csrc/cuda/{knn,fps}_cuda.cu: pairs (row of y, row of x), the nearest first; samples are numbers
  of the whole tensor.

Pooling of Point Transformer V3: autowarefoundation/autoware_universe, perception/autoware_tensorrt_plugins, src/ptv3_ops and
src/scatter_ops: rows in the order of `indices`, reduced segment by segment, and the means of their coordinates.

Selections of rows: NVIDIA/DL4AGX, AV-Solutions/vad-trt, SelectAndPadPlugin: the first P rows that a flag marks, in order,
and the row `invalid` in spare places.
"""

from __future__ import annotations

from itertools import pairwise
from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.plugin_call import plugin_outputs
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)
from trtsmith.importers.opdef import TYPE_VARIABLES, AliasedNode, OpDef
from trtsmith.importers.registry import OPS

_NAME = "stock-point-clouds"

_SAMPLES, _BALLS, _NEIGHBOURS = (op for op in OPS if op.chain == _NAME)

_OPSET = 12
"""The first one whose GatherND knows batches."""

_NOWHERE = float(1 << 24)
"""In place of a row's number, behind all of them."""


_POINTNET2 = ("pointnet2", "pointnet2_ops", "pointnet2_utils")
"""Domains of Pointnet2's functions as the packages that have them are called."""

_FIRST = (
    "of points equally far away the lowest number comes first; the kernels' order is that of their threads"
)
_TIES = (
    "of equally near points the lower number comes first; mmcv's kernel takes them in the order of its heap"
)


_DISTANCES = (
    "a ThreeNN without a domain is taken to give distances, as Pointnet2's function does, and not their squares, as its "
    "kernel does: where these are meant, put a Mul of the output with itself behind the node"
)


def _rows(w: Writer, table: Value, index: Value) -> Value:
    """Gathers rows of table [B, N, C] at index [B, ...]: [B, ..., C]."""
    require_opset(w.node, _OPSET, "GatherND with batches")
    return w.GatherND(table, w.Unsqueeze(w.Cast(index, to="int64"), axes=[-1]), batch_dims=1)


def _by_rows(features: Value) -> Value:
    return features.builder.write("Transpose", features, perm=[0, 2, 1])


def _gather(w: Writer, dtype: str) -> Value | Refusal:
    rank = w.node.known_rank(1)
    found = _rows(w, _by_rows(w.x[0]), w.x[1])
    return w.Transpose(found, perm=[0, rank, *range(1, rank)])


def _interpolate(w: Writer, dtype: str) -> Value:
    weights = w.Unsqueeze(wide(w, 2), axes=[3])
    near = _rows(w, _by_rows(wide(w, 0)), w.x[1])
    return narrow(w, _by_rows(w.reduce("ReduceSum", w.Mul(near, weights), [2], keepdims=False)), dtype)


def _clouds(w: Writer, *indices: int) -> list[Value]:
    """The operands as they are if they share a type that plugins take, else in float32."""
    types = {w.node.dtype(index) for index in indices}
    alike = len(types) == 1 and types <= set(TYPE_VARIABLES["T"])
    return [w.x[index] if alike else wide(w, index) for index in indices]


def _said(op: OpDef) -> str:
    return f"plugin {op.name}"


def _three_nearest(w: Writer, dtype: str) -> Replacement:
    """The three nearest neighbours, with distances as in mmcv's and Pointnet2's functions, or with squares where Sqrt reads
    them, as in their kernels.
    """
    node = w.node
    settings(node)
    distances, places = plugin_outputs(w, _NEIGHBOURS, _clouds(w, 1, 0), {"neighbours": 3})
    said = ""
    if node.domain not in ("mmcv", *_POINTNET2) and node.used(0):
        if all(reader is not None and reader.op_type == "Sqrt" for reader in node.readers(0)):
            distances = w.Mul(distances, distances)
        else:
            said = _DISTANCES
    return Replacement(w.finish(w.Cast(distances, to=dtype), places), _said(_NEIGHBOURS), numerics=said)


def _neighbours(w: Writer, dtype: str) -> Replacement:
    given = settings(w.node, k=int, transposed=0)
    clouds = _clouds(w, 0, min(1, len(w.x) - 1))
    if given["transposed"]:
        clouds = [_by_rows(cloud) for cloud in clouds]
    places = plugin_outputs(w, _NEIGHBOURS, clouds, {"neighbours": given["k"]})[1]
    return Replacement(w.finish(_by_rows(places)), _said(_NEIGHBOURS), numerics=_TIES)


def _number(node: NodeView, index: int, what: str) -> float:
    value = node.constant(index)
    if value is None or value.size != 1:
        fix = f"freeze it: --freeze {quote(node.input(index))}=VALUE"
        raise RefusedError(
            Refusal(f"{what} ({node.input(index)!r}) is no constant number", "a constant", fix)
        )
    return float(value.reshape(-1)[0])


def _cluster_pairs(w: Writer, dtype: str) -> Value | Refusal:
    node, dims = w.node, w.node.shape(0)
    settings(node)
    ends = [node.constant(i) if node.input(i) else None for i in (2, 3)]
    given = [end for end in ends if end is not None]
    counts = {end.size for end in given} if len(given) == 2 else {2, *(end.size for end in given)}
    if len(given) != sum(bool(node.input(i)) for i in (2, 3)) or len(counts) > 1 or min(counts) < 2:
        return Refusal(
            "the bounds of its clouds are computed at run time, or are of different numbers of clouds",
            "ptr_x and ptr_y as constants of the same length, or left out for one cloud",
            "export the model with fixed clouds",
        )
    if node.input(5) and _number(node, 5, "cosine"):
        return Refusal(
            "cosine is set", "Euclidean distances", "divide the rows by their lengths ahead of the node"
        )
    count = int(_number(node, 4, "k"))
    several = counts != {2}
    if dims is None or len(dims) != 2 or (dims[0] is None and not several):
        return node.unknown(0, "the number of points, a size,")
    x, y = _clouds(w, 0, 1)
    bounds = (
        [list(pairwise(end.reshape(-1).tolist())) for end in given] if several else [[(0, dims[0] or 0)], []]
    )
    found = []
    for cloud, (start, end) in enumerate(bounds[0]):
        if end - start < count:
            reason = f"{count} neighbours are asked for, and {node.input(0)!r} has {end - start} points"
            where = f" in cloud {cloud}" if several else ""
            return Refusal(reason + where, f"{count} points or more", "export the model with more points")
        if several:
            first, last = bounds[1][cloud]
            rows, columns = _pairs(
                w, w.slice(x, [start], [end], [0]), w.slice(y, [first], [last], [0]), count
            )
            rows, columns = rows + first, columns + start
        else:
            rows, columns = _pairs(w, x, y, count)
        found.append(w.Concat(*(w.Unsqueeze(part, axes=[0]) for part in (rows, columns)), axis=0))
    return w.Concat(*found, axis=1) if several else found[0]


def _pairs(w: Writer, x: Value, y: Value, count: int) -> tuple[Value, Value]:
    """The rows of y, each `count` times, and the rows of x that are nearest to it."""
    places = plugin_outputs(
        w, _NEIGHBOURS, [w.Unsqueeze(x, axes=[0]), w.Unsqueeze(y, axes=[0])], {"neighbours": count}
    )[1]
    row = w.Reshape(w.arange(w.size(y, 0)), shape=[-1, 1])
    rows = w.Reshape(w.Expand(row, [1, count]), shape=[-1])
    return rows, w.Cast(w.Reshape(places, shape=[-1]), to="int64")


def _ball(w: Writer, dtype: str) -> Replacement | Refusal:
    """Rewrites a ball query. Attributes, outputs and operands tell its form, as exporters may drop the domain."""
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
    fields = {"radius": radius, "inner_radius": inner, "neighbours": most}
    counts, places = plugin_outputs(w, _BALLS, _clouds(w, points, middles), fields)
    if not counted:
        return Replacement(w.finish(places), _said(_BALLS))
    notes = (
        "spare places repeat the first point; rd3d's TensorRT plugin repeats all points of the ball in turn",
    )
    return Replacement(w.finish(counts, w.Cast(places, to="int64")), _said(_BALLS), notes)


def _farthest(w: Writer, dtype: str) -> Replacement:
    node = w.node
    if len(node.inputs) == 2:
        settings(node)
        most = int(_number(node, 1, "npoint"))
    else:
        name = {"FPSampling": "sample_num"}.get(
            node.op_type, "num_points" if node.given("num_points") else "npoint"
        )
        most = settings(node, **{name: int})[name]
    skipped = node.op_type == "FurthestPointSampling" and node.domain not in ("mmcv", "mmdeploy")
    fields = {"samples": most, "skip_origin": int(skipped)}
    (taken,) = plugin_outputs(w, _SAMPLES, _clouds(w, 0), fields)
    return Replacement(w.finish(taken), _said(_SAMPLES), numerics=_FIRST)


def _cluster_samples(w: Writer, dtype: str) -> Replacement | Refusal:
    """Samples each cloud with a plugin; the count is rounded in float32, as in torch_cluster."""
    node, bounds = w.node, w.node.constant(1)
    settings(node)
    if (
        bounds is None
        or np.ndim(bounds) != 1
        or len(bounds) < 2
        or (np.diff(bounds) < 1).any()
        or bounds[0] != 0
    ):
        return Refusal(
            f"ptr ({node.input(1)!r}) is no constant that rises from 0",
            "clouds of fixed sizes, each of one point or more",
            f"export the model with fixed clouds, or freeze it: --freeze {quote(node.input(1))}=VALUE",
        )
    if _number(node, 3, "random_start"):
        return Refusal(
            "random_start is set", "samples from the first point on", "export with random_start=False"
        )
    ratio = np.float32(_number(node, 2, "ratio"))
    if not 0 < ratio <= 1:
        return Refusal(f"ratio = {ratio}", "a ratio above 0, at most 1", "correct 'ratio'")
    (points,) = _clouds(w, 0)
    taken = []
    for start, end in pairwise(map(int, bounds)):
        cloud = w.Unsqueeze(w.slice(points, [start], [end], [0]), axes=[0])
        most = int(np.ceil(np.float32(end - start) * ratio))
        (places,) = plugin_outputs(w, _SAMPLES, [cloud], {"samples": most, "skip_origin": 0})
        taken.append(w.Cast(w.Reshape(places, shape=[-1]), to="int64") + start)
    found = w.Concat(*taken, axis=0) if len(taken) > 1 else taken[0]
    return Replacement(w.finish(found), _said(_SAMPLES), numerics=_FIRST)


def _select(w: Writer, dtype: str) -> Value | Refusal:
    most = settings(w.node, P=int)["P"]
    if most < 1:
        return Refusal(f"P = {most}", "P: 1 or more", "correct 'P'")
    numbers = w.Cast(w.arange(w.size(w.x[1], 1)), to="float32")
    marked = w.Where(w.Cast(w.x[1], to="bool"), numbers, _NOWHERE)
    padded = w.pad(marked, [0, 0, 0, most], _NOWHERE, "float32")
    places, _ = w.TopK(padded, [most], axis=-1, largest=0, sorted=1, outputs=2)
    last = w.Cast(w.size(w.x[0], 1), to="float32")
    batch = w.Concat(w.size(w.x[0], 0), [1, 1], axis=0)
    spare = w.Expand(w.Reshape(w.x[2], shape=[1, 1, -1]), batch)
    return _rows(w, w.Concat(w.x[0], spare, axis=1), w.Min(places, last))


def _pooled(w: Writer, dtype: str) -> Replacement | Refusal:
    """Reduces features and coordinates, as Autoware's single plugin does."""
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
        PluginForm(_gather, "GatherND", 2),
    ),
    "ThreeInterpolate": PluginForm(_interpolate, "GatherND and a weighted sum", 3, floats=(0, 2)),
    "ThreeNN": PluginForm(_three_nearest, least=2, floats=(0, 1), results=2),
    "KNN": PluginForm(_neighbours, most=2),
    "BallQuery": PluginForm(_ball, least=2, most=4, floats=(), results=2),
    "fps": PluginForm(_cluster_samples, least=4),
    "knn": PluginForm(_cluster_pairs, _said(_NEIGHBOURS), 2, 7, floats=(0, 1)),
    **dict.fromkeys(("FurthestPointSampling", "FPSampling"), PluginForm(_farthest, most=2)),
    **dict.fromkeys(
        ("GatherSegmentCSR", "PTv3SerializedPooling"), PluginForm(_pooled, least=4, floats=(0, 1), results=2)
    ),
    "SelectAndPadPlugin": PluginForm(
        _select, "TopK of flagged rows and GatherND", 3, floats=(0, 2), alike=True
    ),
}

STOCK_POINT_CLOUDS = NodeRule(
    _NAME,
    "samples, neighbours and balls of point clouds become plugins; gathers, and VAD's selection of rows, GatherND and TopK",
    (
        *kinds("GatherOperation", "GroupingOperation", "ThreeInterpolate", domains=("mmcv", *_POINTNET2)),
        *kinds("GatherPoints", "GroupPoints", domains=("mmdeploy", "mmcv")),
        *kinds("ThreeNN", domains=("mmcv", *_POINTNET2)),
        *kinds("BallQuery", domains=("rd3d", "mmcv")),
        *kinds("FurthestPointSampling", domains=("mmdeploy", "mmcv")),
        *kinds("FPSampling", domains=("rd3d",)),
        *kinds("SelectAndPadPlugin", domains=("custom_op",)),
        *kinds("GatherSegmentCSR", "PTv3SerializedPooling", domains=("autoware",)),
        "mmcv::KNN",
        "torch_cluster::fps",
        "torch_cluster::knn",
    ),
    rewriter(_POINTS),
    opset=_OPSET,
)

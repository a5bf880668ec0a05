"""Rewrites samplers of feature maps, of Sparse4D, RAFT-Stereo and DROID-SLAM, as GridSample and GatherElements.

Sources:
- ThomasVonWu/SparseEnd2End, deploy/dfa_plugin: DeformableAttentionAggrPlugin of (features, sizes, starts, places, weights),
  as Sparse4D's ops/src/deformable_aggregation_cuda.cu has it. Points count strictly inside of an image.
- NVIDIA/tao_pytorch_backend, cv/sparse4d/utils/onnx_export.py: the same as nv::MSDA. A later plugin projects key points
  itself: (features, sizes, starts, key points, lidar2img, image sizes, weights); points less than 1e-5 ahead of a camera do
  not count.
- princeton-vl/RAFT-Stereo, sampler/sampler_kernel.cu, and DROID-SLAM, src/correlation_kernels.cu: a volume's values around a
  place, linear between whole pixels, zeros outside; DROID's have x before y. No exporter was found.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    Plugin,
    fixed_sizes,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)

_OPSET = 16
"""The first one with GridSample."""

_NEAREST = 1e-5
"""A camera's least depth."""

_OUTSIDE = -3.0
"""A place that no image reaches, on its way to GridSample's -1 to 1 and there."""


def _map_table(node: NodeView, index: int, rank: int) -> np.ndarray:
    value = node.constant(index)
    if value is None or value.ndim != rank:
        raise RefusedError(
            f"its operand {node.input(index)!r} is no constant of {rank} dimensions",
            "constant sizes of the cameras' feature maps, and where they start",
            f"freeze it: --freeze {node.input(index)}=VALUE",
        )
    return value.astype(np.int64)


def _projected(w: Writer) -> Value:
    """Key points in each camera's image as [B, cameras, A, P, (x, y)], from 0 to 1; sums, for products may be in TF32."""
    points = w.Unsqueeze(wide(w, 3), axes=[1, 4])  # [B, 1, A, P, 1, 3]
    camera = w.Unsqueeze(wide(w, 4), axes=[2, 3])  # [B, cameras, 1, 1, 4, 4]
    turned = w.reduce("ReduceSum", w.Mul(points, w.slice(camera, [0], [3], [5])), [5], keepdims=False)
    moved = w.Add(turned, w.Squeeze(w.slice(camera, [3], [4], [5]), axes=[5]))
    pixel, depth = (w.slice(moved, [first], [last], [4]) for first, last in ((0, 2), (2, 3)))
    ahead = w.Greater(depth, _NEAREST)
    places = w.Div(w.Div(pixel, w.Where(ahead, depth, 1.0)), w.Unsqueeze(wide(w, 5), axes=[2, 3]))
    return w.Where(ahead, places, _OUTSIDE)


def _aggregated(w: Writer, dtype: str) -> Value | Refusal:
    """One GridSample for each level and size of maps, of all cameras that have it; weighted sums over points and cameras."""
    node = w.node
    settings(node)
    require_opset(node, _OPSET, "GridSample")
    if len(node.inputs) == 6:
        return Refusal("it has 6 operands", "5, or 7 with key points", "correct its operands")
    sizes, starts = _map_table(node, 1, 3), _map_table(node, 2, 2)
    (length, channels), last = fixed_sizes(node, 0, 3, 1, 2), len(node.inputs) - 1
    cameras, levels, groups = fixed_sizes(node, last, 6, 3, 4, 5)
    ends = starts + sizes.prod(-1) if sizes.shape == (cameras, levels, 2) == (*starts.shape, 2) else None
    if ends is None or ends.max(initial=0) > length or channels % groups or sizes.min(initial=1) < 1:
        return Refusal(
            f"maps of shapes {sizes.tolist()} that start at {starts.tolist()} do not go with {length} rows of {channels}"
            f" channels and weights of {cameras} cameras, {levels} levels and {groups} groups",
            "maps within the rows, weights for each, and groups of as many channels each",
            "correct the operands where the model is exported",
        )
    places = w.Transpose(wide(w, 3), perm=[0, 3, 1, 2, 4]) if last == 4 else _projected(w)
    within = w.Cast(w.And(w.Greater(places, 0.0), w.Less(places, 1.0)), to="float32")
    grid = w.Where(
        w.Greater(w.reduce("ReduceMin", within, [4]), 0.0), w.Sub(w.Mul(places, 2.0), 1.0), _OUTSIDE
    )
    rows, weights = wide(w, 0), wide(w, last)
    batch, anchors, points = w.size(weights, 0), w.size(weights, 1), w.size(weights, 2)
    sums = []
    pairs = (
        (level, size)
        for level in range(levels)
        for size in dict.fromkeys(map(tuple, sizes[:, level].tolist()))
    )
    for level, size in pairs:
        own = np.flatnonzero((sizes[:, level] == size).all(-1))
        places = starts[own, level][:, None] + np.arange(size[0] * size[1])
        maps = w.Reshape(w.Gather(rows, places.reshape(-1), axis=1), shape=[-1, *size, channels])
        own_grid = w.Reshape(w.Gather(grid, own, axis=1), [-1, anchors, points, 2])
        mode = "linear" if node.opset >= 20 else "bilinear"
        found = w.GridSample(w.Transpose(maps, perm=[0, 3, 1, 2]), own_grid, mode=mode, align_corners=0)
        found = w.Reshape(found, [batch, own.size, groups, channels // groups, anchors, points])
        shares = w.Gather(w.Gather(weights, own, axis=3), np.int64(level), axis=4)
        shares = w.Unsqueeze(w.Transpose(shares, perm=[0, 3, 4, 1, 2]), axes=[3])
        sums.append(w.reduce("ReduceSum", w.Mul(found, shares), [1, 5], keepdims=False))  # [B, G, C / G, A]
    total = w.Reshape(reduce(w.Add, sums), [batch, channels, anchors])
    return narrow(w, w.Transpose(total, perm=[0, 2, 1]), dtype)


def _looked_up(w: Writer, dtype: str) -> Value | Refusal:
    """The whole pixels around each place are gathered once: all samples of a place have the same fractions."""
    node, rank = w.node, w.node.rank(0)
    reach = settings(node, radius=int)["radius"]
    if rank not in (4, 5) or reach < 0:
        return Refusal(
            f"its radius is {reach}, and its volume has {rank or 'an unknown number of'} dimensions",
            "a radius of 0 or more, and a volume [N, H, W, W2] or [N, H, W, H2, W2]",
            "correct the node where the model is exported",
        )
    sizes = fixed_sizes(node, 0, rank, *range(3, rank))[::-1]  # across, and down
    coordinates, taps = wide(w, 1), np.arange(-reach, reach + 2, dtype=np.float32)
    index, inside, fractions = w.constant(np.zeros(1, np.int64)), w.constant(np.ones(1, np.bool_)), []
    for axis, size in enumerate(sizes):
        place = w.Transpose(w.slice(coordinates, [axis], [axis + 1], [1]), perm=[0, 2, 3, 1])
        whole = w.Floor(place)
        pixels = w.Add(whole, taps)
        known = w.And(w.Greater(pixels, -0.5), w.Less(pixels, size - 0.5))
        at = w.Mul(w.Cast(w.Where(known, pixels, 0.0), to="int64"), int(np.prod(sizes[:axis])))
        fractions.append(w.Sub(place, whole))
        if rank == 5:  # [N, H, W, across, down]
            at, known = (w.Unsqueeze(part, axes=[4 - axis]) for part in (at, known))
        index, inside = w.Add(index, at), w.And(inside, known)
    flat = [w.size(w.x[0], axis) for axis in range(3)]
    values = w.GatherElements(w.Reshape(wide(w, 0), [*flat, -1]), w.Reshape(index, [*flat, -1]), axis=3)
    values = w.Where(inside, w.Reshape(values, w.shape(index)), 0.0)
    for axis, fraction in enumerate(fractions):
        share = w.Unsqueeze(fraction, axes=[4]) if rank == 5 else fraction
        before, after = (
            w.slice(values, [first], [last], [3 + axis]) for first, last in ((0, -1), (1, 2 * reach + 2))
        )
        values = w.Add(before, w.Mul(share, w.Sub(after, before)))
    return narrow(w, w.Transpose(values, perm=[0, *range(3, rank), 1, 2]), dtype)


_AGGREGATION = Plugin(
    _aggregated, "GridSample of each level and weighted sums", least=5, most=7, floats=(0, 3, 4)
)
_SAMPLERS = {
    "DeformableAttentionAggrPlugin": _AGGREGATION,
    "MSDA": _AGGREGATION,
    "CorrSampler": Plugin(_looked_up, "GatherElements around each place", least=2, floats=(0, 1)),
}

STOCK_FEATURE_SAMPLING = NodeRule(
    "stock-feature-sampling",
    "Sparse4D's aggregation becomes GridSample, correlation look-ups of RAFT-Stereo and DROID-SLAM GatherElements",
    (
        *kinds("DeformableAttentionAggrPlugin", domains=("custom",)),
        *kinds("MSDA", domains=("nv",)),
        *kinds("CorrSampler", domains=("corr_sampler", "droid_backends")),
    ),
    rewriter(_SAMPLERS),
    opset=_OPSET,
)

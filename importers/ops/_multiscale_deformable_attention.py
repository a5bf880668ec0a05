"""Defines aliases, expansion, benchmarks and the largest case for the forms of multi-scale deformable attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import (
    TYPE_VARIABLES,
    Alias,
    AliasedNode,
    Attr,
    Case,
    Expansion,
    Fields,
    Kind,
    Refusal,
    Shapes,
    Work,
)


def expand(expansion: Expansion) -> Value:
    """Expands the operator whose locations and weights are inputs."""
    g = Builder(expansion.opset)
    sampling = _Sampling(g, *g.inputs("attention_weights"))
    locations = g.Transpose("sampling_locations", perm=[0, 2, 1, 3, 4, 5])
    xy = g.Reshape(locations, [sampling.heads, sampling.queries, sampling.levels, sampling.points, 2])
    x, y = (
        g.Reshape(g.Slice(xy, [axis], [axis + 1], [4]), sampling.shape) * sampling.sizes[axis] - 0.5
        for axis in (0, 1)
    )
    return sampling.sum(x, y)


def expand_from_offsets(expansion: Expansion) -> Value:
    """Expands the operator that has reference points, offsets and logits."""
    g = Builder(expansion.opset)
    batch, given = g.Shape("value")[:1], g.Shape("attention_logits")[:1]
    quotient = batch / g.Where(g.Equal(given, [0]), [1], given)
    entries = g.arange(batch) / g.Where(g.Equal(quotient, [0]), [1], quotient)  # images share queries
    logits = g.Gather("attention_logits", entries, axis=0)
    shape = g.Shape(logits)
    flat = g.Reshape(logits, [shape[:3], shape[3:4] * shape[4:5]])
    sampling = _Sampling(g, g.Reshape(g.Softmax(flat, axis=-1), shape))
    levels, points = sampling.levels, sampling.points

    shape = g.Shape("reference_points")
    groups, numbers = shape[3:4], shape[4:5]
    references = g.Reshape(
        "reference_points", [shape[:1], 1, sampling.queries, shape[2:3], 1, groups, numbers]
    )
    offsets_by_head = g.Transpose(g.Gather("sampling_offsets", entries, axis=0), perm=[0, 2, 1, 3, 4, 5])
    turns = points / groups
    offsets_shape = g.vector(sampling.n, sampling.m, sampling.queries, levels, turns, groups, 2)
    offsets = g.Reshape(offsets_by_head, offsets_shape)
    sizes_shape = g.vector(1, 1, 1, levels, 1, 1, 1)
    is_box = g.Equal(numbers, [4])
    twice = g.Concat(references, references, axis=6)
    share_of_extent = 0.5 / g.Cast(points, to="float32")

    def positions(axis: int) -> Value:
        """Computes pixels along x or y, from a reference and from offsets in pixels or in shares of a box."""
        size = g.Reshape(sampling.sizes[axis], sizes_shape)
        extent = g.Slice(twice, [axis + 2], [axis + 3], [6]) * size * share_of_extent
        away = g.Slice(offsets, [axis], [axis + 1], [6]) * g.Where(is_box, extent, 1.0)
        origin = g.Slice(references, [axis], [axis + 1], [6]) * size - 0.5
        return g.Reshape(origin + away, sampling.shape)

    return sampling.sum(positions(0), positions(1))


class _Sampling:
    """Flat gathers with computed row indices: one graph for any number of levels, in any order of storage.

    Values become rows [N*M*S + 1, D], the last of which is zero. Each of the four corners of every sample is gathered
    by row; a corner outside its level, or of a location that is NaN, has weight zero and takes the last row.
    Samples are weighted and summed by Mul and ReduceSum, not by MatMul: products of one row each are slow in TensorRT,
    and TensorRT-RTX 1.6.1 fails to run them at 22,223 queries of a dynamic batch.

    sizes: widths and heights of the levels. shape: [N*M, Q, L, P], of positions.
    """

    def __init__(self, g: Builder, attention_weights: Value) -> None:
        self._g = g
        value_shape, weights_shape = g.Shape("value"), g.Shape(attention_weights)
        self.n, self._rows_of_head, self.m, self._depth = (value_shape[i : i + 1] for i in range(4))
        self.queries, self.levels, self.points = (weights_shape[i : i + 1] for i in (1, 3, 4))
        self.heads = self.n * self.m
        self.shape = g.vector(self.heads, self.queries, self.levels, self.points)
        self._level_shape = g.vector(1, 1, self.levels, 1)
        spatial = g.Cast("spatial_shapes", to="int64")
        self._widths, heights = (
            g.Reshape(g.Slice(spatial, [axis], [axis + 1], [1]), self._level_shape) for axis in (1, 0)
        )
        self.sizes = [g.Cast(size, to="float32") for size in (self._widths, heights)]
        self._weights = g.Reshape(g.Transpose(attention_weights, perm=[0, 2, 1, 3, 4]), self.shape)

    def sum(self, x: Value, y: Value) -> Value:
        """The operator's output, from positions in pixels."""
        g, count, depth = self._g, self._rows_of_head, self._depth
        samples = self.levels * self.points
        all_rows = self.heads * count
        value_rows = g.Reshape(g.Transpose("value", perm=[0, 2, 1, 3]), [all_rows, depth])
        rows = g.Concat(value_rows, g.Expand(0.0, [1, depth]), axis=0)
        first_row = g.Reshape(g.arange(self.heads) * count, [self.heads, 1, 1, 1])
        starts = g.Reshape(g.Cast("level_start_index", to="int64"), self._level_shape)
        right_limit, bottom_limit = (size - 0.5 for size in self.sizes)
        share_shape = g.vector(self.heads, self.queries, samples, 1)
        index_shape = g.vector(self.heads, self.queries, samples)

        def corner(column: Value, share_x: Value, row: Value, share_y: Value) -> Value:
            in_columns = (column > -0.5) & (column < right_limit)
            in_level = in_columns & ((row > -0.5) & (row < bottom_limit))
            row_start = g.Cast(g.Where(in_level, row, 0.0), to="int64") * self._widths
            key = row_start + g.Cast(g.Where(in_level, column, 0.0), to="int64") + starts
            inside = in_level & ((key > [-1]) & (key < count))
            share = g.Where(inside, share_x * share_y * self._weights, 0.0)
            index = g.Reshape(g.Where(inside, key + first_row, all_rows), index_shape)
            sampled = g.Gather(rows, index, axis=0) * g.Reshape(share, share_shape)
            return g.ReduceSum(sampled, axes=[2], keepdims=0)

        left, top = g.Floor(x), g.Floor(y)
        share_right, share_bottom = x - left, y - top
        before, after = (left, 1.0 - share_right), (left + 1.0, share_right)
        above, below = (top, 1.0 - share_bottom), (top + 1.0, share_bottom)
        upper = corner(*before, *above) + corner(*after, *above)
        total = upper + (corner(*before, *below) + corner(*after, *below))
        heads_first = g.Reshape(total, [self.n, self.m, self.queries, depth])
        return g.Reshape(g.Transpose(heads_first, perm=[0, 2, 1, 3]), [self.n, self.queries, self.m * depth])


Levels = tuple[tuple[int, int], ...]

DETECTOR: Levels = ((100, 167), (50, 84), (25, 42), (13, 21))
"""Strides 8 to 64 of an 800x1333 image: 22,223 positions."""

CAMERA: Levels = ((116, 200), (58, 100), (29, 50), (15, 25))
"""Strides 8 to 64 of a 928x1600 image, as BEVFormer pads nuScenes' cameras: 30,825 positions."""

LOCAL_PIXELS = 2.0
"""Standard deviation of a local sample from its query's position, in pixels of its level."""

HEADS, CHANNELS = 8, 32


def stored(levels: Levels, order: Iterable[int]) -> tuple[np.ndarray, int]:
    """Returns where each level starts ([L]) when levels are stored in this order, and the number of all positions."""
    starts, count = np.zeros(len(levels), np.int64), 0
    for level in order:
        starts[level], count = count, count + levels[level][0] * levels[level][1]
    return starts, count


def pixels(levels: Levels) -> np.ndarray:
    """Returns [S, 2]: the centre (x, y) of every position of every level, 0 to 1. An encoder's queries are these."""
    return np.concatenate([grid(height, width) for height, width in levels])


def grid(height: int, width: int) -> np.ndarray:
    """Returns [height * width, 2]: centres (x, y), row by row, 0 to 1."""
    y, x = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1)


def work(_fields: Fields, shapes: Shapes) -> Work:
    """Counts for each sample four corners of D channels, and 16 operations for its position, fractions and weights."""
    samples = math.prod(shapes["attention_weights"])
    return Work(flops=samples * (8 * shapes["value"][3] + 16))


def _case(
    name: str,
    levels: Levels,
    batch: int,
    queries: int,
    points: int,
    near: Callable[[], np.ndarray] | None = None,
) -> Case:
    """near: positions [queries, 2] that the samples lie around; None: samples uniform over the image."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        areas = [height * width for height, width in levels]
        shape = (batch, queries, HEADS, len(levels), points)
        if near is None:
            locations = rng.random((*shape, 2))
        else:
            sizes = np.array([(width, height) for height, width in levels], np.float64)[:, None]
            locations = rng.standard_normal((*shape, 2))
            locations *= LOCAL_PIXELS / sizes
            locations += near()[:, None, None, None]
        weights = rng.random(shape)
        weights /= weights.sum(axis=(-1, -2), keepdims=True)
        return {
            "value": rng.standard_normal((batch, sum(areas), HEADS, CHANNELS)),
            "spatial_shapes": np.array(levels, np.int64),
            "level_start_index": np.cumsum([0, *areas[:-1]], dtype=np.int64),
            "sampling_locations": locations,
            "attention_weights": weights,
        }

    return Case(name, {}, make, large=True)


def _encoder(name: str, batch: int, near: Callable[[], np.ndarray] | None = None) -> Case:
    return _case(name, DETECTOR, batch, sum(height * width for height, width in DETECTOR), 4, near)


BENCHMARKS = (
    # Deformable DETR on an 800x1333 image; 80 MB in float32.
    _encoder("detr_encoder", 1),
    _encoder("detr_encoder_local", 1, lambda: pixels(DETECTOR)),
    _encoder("detr_encoder_batch_4", 4),
    _encoder("detr_encoder_batch_4_local", 4, lambda: pixels(DETECTOR)),
    _case("dino_decoder", DETECTOR, 1, 900, 4),
    # BEVFormer's spatial cross-attention: six cameras as batch, 10,000 queries a camera, 8 points; 435 MB in float32.
    _case("bevformer_cross", CAMERA, 6, 10_000, 8),
    _case("bevformer_cross_local", CAMERA, 6, 10_000, 8, lambda: grid(100, 100)),
)


_PLUGIN_INPUTS = ("value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights")


def _split_heads(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    weights = "attention_logits" if "logits" in node.present else "attention_weights"
    shape = [g.Shape(weights)[:2], g.Shape("value")[2:4]]
    return {"attention": g.Reshape("output", shape)}


def _bevformer_guard(node: AliasedNode) -> Refusal | None:
    """Older commits of that repository gave the name to other inputs: starts and locations, not points and offsets."""
    reference = node.shapes.get("points")
    fix = "export again with the repository as it is now, or as MMCVMultiScaleDeformableAttention"
    if node.dtypes.get("points") in TYPE_VARIABLES["I"] or (reference is not None and len(reference) == 1):
        return Refusal("the third input is level_start_index", "reference_points [N, Lq, 1, 2*G]", fix)
    if reference is not None and (
        len(reference) != 4
        or reference[2] not in (None, 1)
        or (reference[3] is not None and reference[3] % 2)
    ):
        return Refusal(
            f"reference_points is {describe(reference)}", "[N, Lq, 1, 2*G]: G points, not boxes", fix
        )
    for name, given, meaning in (
        ("sampling_offsets", "offsets", "[N, Lq, M, L*P*2]"),
        ("attention_weights", "logits", "[N, Lq, M, L*P] before softmax"),
    ):
        shape = node.shapes.get(given)
        if shape is not None and len(shape) != 4:
            return Refusal(f"{name} is {describe(shape)}", meaning, fix)
    return None


def _bevformer_prologue(node: AliasedNode) -> dict[str, Value]:
    """Point p of every level belongs to reference point p mod G, offsets are in pixels and softmax goes over all samples,
    as the operator has it; levels are stored one after the other.
    """
    g = node.builder()
    spatial_shapes = g.Cast("shapes", to="int64")
    areas = g.Slice(spatial_shapes, [0], [1], [1]) * g.Slice(spatial_shapes, [1], [2], [1])
    levels = g.Shape(spatial_shapes)[:1]
    shape = g.Shape("logits")
    weights_shape = g.vector(shape[:3], levels, shape[3:4] / levels)
    points_shape = g.Shape("points")
    references = g.Reshape("points", [points_shape[:2], 1, points_shape[3:4] / [2], 2])
    return {
        "spatial_shapes": spatial_shapes,
        "level_start_index": g.CumSum(g.Reshape(areas, [-1]), 0, exclusive=1),
        "attention_logits": g.Reshape("logits", weights_shape),
        "sampling_offsets": g.Reshape("offsets", [weights_shape, 2]),
        "reference_points": g.Cast(references, to="float32"),
    }


def _bevformer(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=(),
        inputs=("value", "shapes", "points", "offsets", "logits"),
        outputs=("attention",),
        guard=_bevformer_guard,
        prologue=_bevformer_prologue,
        epilogue=_split_heads,
        source="BEVFormer_tensorrt, Autoware",
    )


_STEP = Attr("im2col_step", Kind.INT, ignored=True)
_MMCV = Alias(
    op_type="MMCVMultiScaleDeformableAttention",
    domains=("mmcv", "mmdeploy"),
    inputs=_PLUGIN_INPUTS,
    attributes=(_STEP,),
    source="mmcv, mmdeploy",
)

ALIASES = (
    _MMCV,
    replace(
        _MMCV,
        op_type="MultiscaleDeformableAttnPlugin_TRT",
        domains=("trt", "com.microsoft"),
        outputs=("attention",),
        epilogue=_split_heads,
        source="NVIDIA TensorRT OSS",
    ),
    replace(
        _MMCV,
        op_type="MultiScaleDeformableAttentionPlugin",
        domains=("custom_op",),
        attributes=(_STEP, Attr("iLayer", Kind.INT, ignored=True)),
        source="NVIDIA DL4AGX, Autoware",
    ),
)
"""Of the operator that is given locations and weights."""

OFFSET_ALIASES = (_bevformer("MultiScaleDeformableAttnTRT"), _bevformer("MultiScaleDeformableAttnTRT2"))
"""Of the operator that makes them of reference points, offsets and logits."""

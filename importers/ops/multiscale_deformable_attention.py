"""Multi-scale deformable attention (Zhu et al., Deformable DETR, arXiv 2010.04159, equation 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from importers.dims import describe
from importers.opdef import (
    TYPE_VARIABLES,
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
    SpelledNode,
    Spelling,
)
from importers.ops._multiscale_deformable_attention_sizes import BENCHMARKS, DETECTOR, work


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, _, heads, channels = shapes["value"]
    return {"output": (batch, shapes["sampling_locations"][1], heads * channels)}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    """Batch, heads, levels, points and queries must agree between the inputs."""
    named = {
        "batch": [("value", 0), ("sampling_locations", 0), ("attention_weights", 0)],
        "heads": [("value", 2), ("sampling_locations", 2), ("attention_weights", 2)],
        "queries": [("sampling_locations", 1), ("attention_weights", 1)],
        "levels": [
            ("spatial_shapes", 0),
            ("level_start_index", 0),
            ("sampling_locations", 3),
            ("attention_weights", 3),
        ],
        "points": [("sampling_locations", 4), ("attention_weights", 4)],
    }
    faults = []
    for what, places in named.items():
        sizes = {
            f"{p}[{axis}]": shapes[p][axis]
            for p, axis in places
            if p in shapes and shapes[p][axis] is not None
        }
        if len(set(sizes.values())) > 1:
            faults.append(
                f"{what} differ: " + ", ".join(f"{place} = {size}" for place, size in sizes.items())
            )
    for port, axis, size in (("spatial_shapes", 1, 2), ("sampling_locations", 5, 2)):
        if port in shapes and shapes[port][axis] not in (None, size):
            faults.append(f"{port}[{axis}] = {shapes[port][axis]}, not {size}")
    return faults


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One sampling point at a time over whole arrays, corner by corner; float64."""
    value = inputs["value"].astype(np.float64)
    locations = inputs["sampling_locations"].astype(np.float64)
    weights = inputs["attention_weights"].astype(np.float64)
    batch, keys, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    output = np.zeros((batch, queries, heads, channels))
    n = np.arange(batch)[:, None, None]
    m = np.arange(heads)[None, None, :]
    for level in range(levels):
        height, width = (int(size) for size in inputs["spatial_shapes"][level])
        start = int(inputs["level_start_index"][level])
        for point in range(points):
            x = locations[:, :, :, level, point, 0] * width - 0.5
            y = locations[:, :, :, level, point, 1] * height - 0.5
            left, top = np.floor(x), np.floor(y)
            for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
                inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                with np.errstate(invalid="ignore"):  # inf - inf where a location is infinite: outside
                    share = np.where(inside, (1 - np.abs(x - column)) * (1 - np.abs(y - row)), 0.0)
                index = start + np.where(inside, row * width + column, 0).astype(np.int64)
                inside &= (index >= 0) & (index < keys)
                index = np.where(inside, index, 0)
                share = np.where(inside, share * weights[:, :, :, level, point], 0.0)
                if keys:
                    output += share[..., None] * value[n, index, m]
    return {"output": output.reshape(batch, queries, heads * channels)}


def _torch_reference(_fields: Fields, inputs: Any) -> tuple[Any]:
    """grid_sample level by level, as the Deformable DETR authors' own PyTorch fallback formulates it.

    Levels are cut out of `value` by level_start_index, so they may lie in any order.
    """
    import torch
    import torch.nn.functional as functional

    value, locations, weights = inputs["value"], inputs["sampling_locations"], inputs["attention_weights"]
    batch, _, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    # grid_sample casts coordinates to int without a check; what is clamped here is outside of every level anyway.
    grids = 2 * torch.nan_to_num(locations, nan=-10.0).clamp(-10, 11) - 1
    sampled = []
    for level, (height, width) in enumerate(inputs["spatial_shapes"].tolist()):
        start = int(inputs["level_start_index"][level])
        if height * width == 0:
            sampled.append(value.new_zeros(batch * heads, channels, queries, points))
            continue
        feature = value[:, start : start + height * width]
        feature = feature.permute(0, 2, 3, 1).reshape(batch * heads, channels, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).reshape(batch * heads, queries, points, 2)
        sampled.append(
            functional.grid_sample(feature, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        )
    if not sampled:
        return (value.new_zeros(batch, queries, heads * channels),)
    weights = weights.transpose(1, 2).reshape(batch * heads, 1, queries, levels * points)
    output = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return (output.reshape(batch, heads * channels, queries).transpose(1, 2).contiguous(),)


def _expand(_expansion: Expansion) -> str:
    """Flat gathers with computed row indices: one graph for any number of levels, in any order of storage.

    Values become rows [N*M*S + 1, D], the last of which is zero. Each of the four corners of every sample is gathered
    by row; a corner outside its level, or of a location that is NaN, has weight zero and takes the last row.
    """
    corners = (("left", "top"), ("right", "top"), ("left", "bottom"), ("right", "bottom"))
    body = [_EXPAND_COMMON]
    for k, (column, row) in enumerate(corners):
        body.append(
            f"""
in_x_low_{k} = Greater ({column}, minus_half)
in_x_high_{k} = Less ({column}, right_limit)
in_y_low_{k} = Greater ({row}, minus_half)
in_y_high_{k} = Less ({row}, bottom_limit)
in_x_{k} = And (in_x_low_{k}, in_x_high_{k})
in_y_{k} = And (in_y_low_{k}, in_y_high_{k})
in_level_{k} = And (in_x_{k}, in_y_{k})
column_safe_{k} = Where (in_level_{k}, {column}, nought)
row_safe_{k} = Where (in_level_{k}, {row}, nought)
column_int_{k} = Cast <to = 7> (column_safe_{k})
row_int_{k} = Cast <to = 7> (row_safe_{k})
row_start_{k} = Mul (row_int_{k}, widths_int)
cell_{k} = Add (row_start_{k}, column_int_{k})
key_{k} = Add (cell_{k}, starts)
key_low_{k} = Greater (key_{k}, minus)
key_high_{k} = Less (key_{k}, s)
key_ok_{k} = And (key_low_{k}, key_high_{k})
inside_{k} = And (in_level_{k}, key_ok_{k})
row_of_value_{k} = Add (key_{k}, first_row)
index_{k} = Where (inside_{k}, row_of_value_{k}, nms)
bilinear_{k} = Mul (x_{column}, y_{row})
weighted_{k} = Mul (bilinear_{k}, weights)
share_{k} = Where (inside_{k}, weighted_{k}, nought)
share_row_{k} = Reshape (share_{k}, share_shape)
index_row_{k} = Reshape (index_{k}, index_shape)
corner_{k} = Gather <axis = 0> (rows, index_row_{k})
sum_{k} = MatMul (share_row_{k}, corner_{k})"""
        )
    body.append(
        """
sum_top = Add (sum_0, sum_1)
sum_bottom = Add (sum_2, sum_3)
sum = Add (sum_top, sum_bottom)
heads_first = Reshape (sum, heads_first_shape)
heads_inner = Transpose <perm = [0, 2, 1, 3]> (heads_first)
output = Reshape (heads_inner, output_shape)"""
    )
    return "\n".join(body)


_EXPAND_COMMON = """
zero = Constant <value = int64[1] {0}> ()
one = Constant <value = int64[1] {1}> ()
two = Constant <value = int64[1] {2}> ()
three = Constant <value = int64[1] {3}> ()
four = Constant <value = int64[1] {4}> ()
five = Constant <value = int64[1] {5}> ()
minus = Constant <value = int64[1] {-1}> ()
half = Constant <value = float {0.5}> ()
minus_half = Constant <value = float {-0.5}> ()
unit = Constant <value = float {1.0}> ()
nought = Constant <value = float {0.0}> ()
value_shape = Shape (value)
n = Slice (value_shape, zero, one)
s = Slice (value_shape, one, two)
m = Slice (value_shape, two, three)
d = Slice (value_shape, three, four)
weights_shape = Shape (attention_weights)
q = Slice (weights_shape, one, two)
l = Slice (weights_shape, three, four)
p = Slice (weights_shape, four, five)
lp = Mul (l, p)
md = Mul (m, d)
nm = Mul (n, m)
nms = Mul (nm, s)
sample_shape = Concat <axis = 0> (nm, q, l, p)
samples_xy_shape = Concat <axis = 0> (nm, q, l, p, two)
share_shape = Concat <axis = 0> (nm, q, one, lp)
index_shape = Concat <axis = 0> (nm, q, lp)
heads_first_shape = Concat <axis = 0> (n, m, q, d)
output_shape = Concat <axis = 0> (n, q, md)
rows_shape = Concat <axis = 0> (nms, d)
heads_of_value = Transpose <perm = [0, 2, 1, 3]> (value)
value_rows = Reshape (heads_of_value, rows_shape)
zero_row_shape = Concat <axis = 0> (one, d)
zero_row = Expand (nought, zero_row_shape)
rows = Concat <axis = 0> (value_rows, zero_row)
zero_scalar = Squeeze (zero)
one_scalar = Squeeze (one)
nm_scalar = Squeeze (nm)
head_index = Range (zero_scalar, nm_scalar, one_scalar)
head_row = Mul (head_index, s)
first_row_shape = Concat <axis = 0> (nm, one, one, one)
first_row = Reshape (head_row, first_row_shape)
level_shape = Concat <axis = 0> (one, one, l, one)
spatial = Cast <to = 7> (spatial_shapes)
starts_flat = Cast <to = 7> (level_start_index)
starts = Reshape (starts_flat, level_shape)
heights_column = Slice (spatial, zero, one, one)
widths_column = Slice (spatial, one, two, one)
heights_int = Reshape (heights_column, level_shape)
widths_int = Reshape (widths_column, level_shape)
heights = Cast <to = 1> (heights_int)
widths = Cast <to = 1> (widths_int)
right_limit = Sub (widths, half)
bottom_limit = Sub (heights, half)
locations_by_head = Transpose <perm = [0, 2, 1, 3, 4, 5]> (sampling_locations)
weights_by_head = Transpose <perm = [0, 2, 1, 3, 4]> (attention_weights)
xy = Reshape (locations_by_head, samples_xy_shape)
weights = Reshape (weights_by_head, sample_shape)
x_column = Slice (xy, zero, one, four)
y_column = Slice (xy, one, two, four)
x_unit = Reshape (x_column, sample_shape)
y_unit = Reshape (y_column, sample_shape)
x_scaled = Mul (x_unit, widths)
y_scaled = Mul (y_unit, heights)
x = Sub (x_scaled, half)
y = Sub (y_scaled, half)
left = Floor (x)
top = Floor (y)
right = Add (left, unit)
bottom = Add (top, unit)
x_right = Sub (x, left)
y_bottom = Sub (y, top)
x_left = Sub (unit, x_right)
y_top = Sub (unit, y_bottom)"""


def _inputs(
    batch: int,
    heads: int,
    channels: int,
    queries: int,
    points: int,
    levels: tuple[tuple[int, int], ...],
    **options: Any,
) -> Any:
    """A generator of inputs: `order` stores levels in another order, `spread` puts locations outside [0, 1]."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        sizes = [h * w for h, w in levels]
        starts = np.zeros(len(levels), np.int64)
        position = 0
        for level in options.get("order", range(len(levels))):
            starts[level] = position
            position += sizes[level]
        shape = (batch, queries, heads, len(levels), points)
        spread = options.get("spread", 0.2)
        locations = rng.uniform(-spread, 1 + spread, (*shape, 2))
        if options.get("wild"):
            flat = locations.reshape(-1)
            flat[::7] = np.resize([np.nan, np.inf, -np.inf, 1e30, -1e30, 1e9], flat[::7].shape)
        weights = np.exp(rng.normal(size=shape))
        weights /= np.maximum(weights.sum(axis=(-1, -2), keepdims=True), 1e-12)
        return {
            "value": rng.normal(size=(batch, position + options.get("spare", 0), heads, channels)),
            "spatial_shapes": np.array(levels, np.int64).reshape(len(levels), 2),
            "level_start_index": starts,
            "sampling_locations": locations,
            "attention_weights": weights,
        }

    return make


_CASES = (
    Case("one_of_each", {}, _inputs(1, 1, 1, 1, 1, ((1, 1),))),
    Case("odd", {}, _inputs(2, 3, 5, 7, 3, ((5, 3), (2, 7), (1, 1)))),
    Case("two_levels", {}, _inputs(2, 8, 32, 33, 4, ((13, 17), (7, 9)))),
    Case("channels_16", {}, _inputs(1, 4, 16, 65, 4, ((9, 11), (5, 6)))),
    Case("channels_64", {}, _inputs(1, 2, 64, 31, 8, ((9, 11), (5, 6)))),
    Case("channels_36", {}, _inputs(1, 2, 36, 31, 2, ((9, 11),))),
    Case(
        "levels_out_of_order", {}, _inputs(1, 2, 8, 19, 4, ((6, 5), (3, 4), (2, 2)), order=(2, 0, 1), spare=3)
    ),
    Case("far_outside", {}, _inputs(1, 2, 8, 50, 4, ((6, 5), (3, 4)), spread=3.0)),
    Case("nan_and_huge_locations", {}, _inputs(1, 2, 8, 50, 4, ((6, 5), (3, 4)), wild=True)),
    Case("no_queries", {}, _inputs(2, 2, 8, 0, 4, ((6, 5),))),
    Case("no_batch", {}, _inputs(0, 2, 8, 5, 4, ((6, 5),))),
    Case("no_points", {}, _inputs(1, 2, 8, 5, 0, ((6, 5),))),
    Case("empty_level", {}, _inputs(1, 2, 8, 5, 2, ((6, 5), (0, 4)))),
    Case("detector_encoder", {}, _inputs(1, 8, 32, 22223, 4, DETECTOR), large=True),
    Case("detector_decoder", {}, _inputs(4, 8, 32, 300, 4, DETECTOR), large=True),
)

_PLUGIN_INPUTS = ("value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights")

_SPLIT_HEADS = """
ms_zero = Constant <value = int64[1] {0}> ()
ms_two = Constant <value = int64[1] {2}> ()
ms_four = Constant <value = int64[1] {4}> ()
ms_weights_shape = Shape (attention_weights)
ms_value_shape = Shape (value)
ms_batch_queries = Slice (ms_weights_shape, ms_zero, ms_two)
ms_heads_channels = Slice (ms_value_shape, ms_two, ms_four)
ms_output_shape = Concat <axis = 0> (ms_batch_queries, ms_heads_channels)
attention = Reshape (output, ms_output_shape)
"""


def _bevformer_guard(node: SpelledNode) -> Refusal | None:
    """Older commits of that repository gave the name to other inputs: starts and locations, not points and offsets."""
    reference = node.shapes.get("reference_points")
    fix = "export again with the repository as it is now, or as MMCVMultiScaleDeformableAttention"
    if node.dtypes.get("reference_points") in TYPE_VARIABLES["I"] or (
        reference is not None and len(reference) == 1
    ):
        return Refusal("the third input is level_start_index", "reference_points [N, Lq, 1, 2*G]", fix)
    if reference is not None and (
        len(reference) != 4
        or reference[2] not in (None, 1)
        or (reference[3] is not None and reference[3] % 2)
    ):
        return Refusal(
            f"reference_points is {describe(reference)}", "[N, Lq, 1, 2*G]: G points, not boxes", fix
        )
    for name, meaning in (
        ("sampling_offsets", "[N, Lq, M, L*P*2]"),
        ("logits", "[N, Lq, M, L*P] before softmax"),
    ):
        shape = node.shapes.get(name)
        if shape is not None and len(shape) != 4:
            return Refusal(f"{name} is {describe(shape)}", meaning, fix)
    return None


def _bevformer_prologue(node: SpelledNode) -> str:
    """Locations out of points and offsets, softmax, and the starts of levels stored one after the other.

    Point p of every level belongs to reference point p mod G; offsets are in pixels, divided by (width, height).
    """
    dtype = {"float16": 10, "bfloat16": 16}.get(node.dtypes.get("value", ""), 1)
    return _BEVFORMER_PROLOGUE.replace("{dtype}", str(dtype))


_BEVFORMER_PROLOGUE = """
bf_zero = Constant <value = int64[1] {0}> ()
bf_one = Constant <value = int64[1] {1}> ()
bf_two = Constant <value = int64[1] {2}> ()
bf_three = Constant <value = int64[1] {3}> ()
bf_four = Constant <value = int64[1] {4}> ()
bf_minus = Constant <value = int64[1] {-1}> ()
bf_axis = Constant <value = int64 {0}> ()
spatial_shapes = Cast <to = 7> (shapes)
bf_heights = Slice (spatial_shapes, bf_zero, bf_one, bf_one)
bf_widths = Slice (spatial_shapes, bf_one, bf_two, bf_one)
bf_areas_column = Mul (bf_heights, bf_widths)
bf_areas = Reshape (bf_areas_column, bf_minus)
level_start_index = CumSum <exclusive = 1> (bf_areas, bf_axis)
bf_spatial_shape = Shape (spatial_shapes)
bf_levels = Slice (bf_spatial_shape, bf_zero, bf_one)
bf_logits_shape = Shape (logits)
bf_batch_queries_heads = Slice (bf_logits_shape, bf_zero, bf_three)
bf_samples = Slice (bf_logits_shape, bf_three, bf_four)
bf_points = Div (bf_samples, bf_levels)
bf_weights_shape = Concat <axis = 0> (bf_batch_queries_heads, bf_levels, bf_points)
bf_softmax = Softmax <axis = -1> (logits)
attention_weights = Reshape (bf_softmax, bf_weights_shape)
bf_reference_shape = Shape (reference_points)
bf_batch_queries = Slice (bf_reference_shape, bf_zero, bf_two)
bf_reference_numbers = Slice (bf_reference_shape, bf_three, bf_four)
bf_references = Div (bf_reference_numbers, bf_two)
bf_turns = Div (bf_points, bf_references)
bf_points_shape = Concat <axis = 0> (bf_batch_queries, bf_one, bf_one, bf_one, bf_references, bf_two)
bf_reference = Reshape (reference_points, bf_points_shape)
bf_offsets_shape = Concat <axis = 0> (bf_batch_queries_heads, bf_levels, bf_turns, bf_references, bf_two)
bf_offsets = Reshape (sampling_offsets, bf_offsets_shape)
bf_sizes_int = Concat <axis = 1> (bf_widths, bf_heights)
bf_sizes_table = Cast <to = {dtype}> (bf_sizes_int)
bf_sizes_shape = Concat <axis = 0> (bf_one, bf_one, bf_one, bf_levels, bf_one, bf_one, bf_two)
bf_sizes = Reshape (bf_sizes_table, bf_sizes_shape)
bf_scaled = Div (bf_offsets, bf_sizes)
bf_locations = Add (bf_reference, bf_scaled)
bf_locations_shape = Concat <axis = 0> (bf_batch_queries_heads, bf_levels, bf_points, bf_two)
sampling_locations = Reshape (bf_locations, bf_locations_shape)
"""


def _bevformer(op_type: str) -> Spelling:
    return Spelling(
        op_type=op_type,
        domains=(),
        inputs=("value", "shapes", "reference_points", "sampling_offsets", "logits"),
        outputs=("attention",),
        guard=_bevformer_guard,
        prologue=_bevformer_prologue,
        epilogue=_SPLIT_HEADS,
        source="BEVFormer_tensorrt, Autoware",
    )


MULTISCALE_DEFORMABLE_ATTENTION = OpDef(
    name="MultiscaleDeformableAttention",
    doc=(
        "Multi-scale deformable attention: bilinear samples of several feature levels, weighted and summed "
        "for each head. pixel = location * size - 0.5; samples outside a level are zero."
    ),
    inputs=(
        Port("value", "T", 4, "[N, S, M, D] features of all levels, row by row"),
        Port("spatial_shapes", "I", 2, "[L, 2] (height, width) of each level"),
        Port("level_start_index", "I", 1, "[L] first row of each level in S"),
        Port("sampling_locations", "T", 6, "[N, Lq, M, L, P, 2] (x, y), 0 to 1 across the level"),
        Port("attention_weights", "T", 5, "[N, Lq, M, L, P], softmax already applied"),
    ),
    outputs=(Port("output", "T", 3, "[N, Lq, M*D]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    spellings=(
        Spelling(
            op_type="MMCVMultiScaleDeformableAttention",
            domains=("mmcv", "mmdeploy"),
            inputs=_PLUGIN_INPUTS,
            attributes=(Attr("im2col_step", Kind.INT, ignored=True),),
            source="mmcv, mmdeploy",
        ),
        Spelling(
            op_type="MultiscaleDeformableAttnPlugin_TRT",
            domains=("trt", "com.microsoft"),
            inputs=_PLUGIN_INPUTS,
            attributes=(Attr("im2col_step", Kind.INT, ignored=True),),
            outputs=("attention",),
            epilogue=_SPLIT_HEADS,
            source="NVIDIA TensorRT OSS",
        ),
        Spelling(
            op_type="MultiScaleDeformableAttentionPlugin",
            domains=("custom_op",),
            inputs=_PLUGIN_INPUTS,
            attributes=(Attr("im2col_step", Kind.INT, ignored=True), Attr("iLayer", Kind.INT, ignored=True)),
            source="NVIDIA DL4AGX, Autoware",
        ),
        _bevformer("MultiScaleDeformableAttnTRT"),
        _bevformer("MultiScaleDeformableAttnTRT2"),
    ),
    cases=_CASES,
    tolerance={"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2},
    benchmarks=BENCHMARKS,
    work=work,
)

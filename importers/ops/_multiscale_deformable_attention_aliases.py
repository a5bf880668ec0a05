"""Lists the forms in which other tools write multi-scale deformable attention."""

from __future__ import annotations

from trtsmith.importers.dims import describe
from trtsmith.importers.dtypes import NUMBERS
from trtsmith.importers.opdef import TYPE_VARIABLES, Alias, AliasedNode, Attr, Kind, Refusal

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


def _bevformer_guard(node: AliasedNode) -> Refusal | None:
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


def _bevformer_prologue(node: AliasedNode) -> str:
    """Locations out of points and offsets, softmax, and the starts of levels stored one after the other.

    Point p of every level belongs to reference point p mod G; offsets are in pixels, divided by (width, height).
    """
    dtype = node.dtypes.get("value")
    number = NUMBERS[dtype if dtype in TYPE_VARIABLES["T"] else "float32"]
    return _BEVFORMER_PROLOGUE.replace("{dtype}", str(number))


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


def _bevformer(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=(),
        inputs=("value", "shapes", "reference_points", "sampling_offsets", "logits"),
        outputs=("attention",),
        guard=_bevformer_guard,
        prologue=_bevformer_prologue,
        epilogue=_SPLIT_HEADS,
        source="BEVFormer_tensorrt, Autoware",
    )


ALIASES = (
    Alias(
        op_type="MMCVMultiScaleDeformableAttention",
        domains=("mmcv", "mmdeploy"),
        inputs=_PLUGIN_INPUTS,
        attributes=(Attr("im2col_step", Kind.INT, ignored=True),),
        source="mmcv, mmdeploy",
    ),
    Alias(
        op_type="MultiscaleDeformableAttnPlugin_TRT",
        domains=("trt", "com.microsoft"),
        inputs=_PLUGIN_INPUTS,
        attributes=(Attr("im2col_step", Kind.INT, ignored=True),),
        outputs=("attention",),
        epilogue=_SPLIT_HEADS,
        source="NVIDIA TensorRT OSS",
    ),
    Alias(
        op_type="MultiScaleDeformableAttentionPlugin",
        domains=("custom_op",),
        inputs=_PLUGIN_INPUTS,
        attributes=(Attr("im2col_step", Kind.INT, ignored=True), Attr("iLayer", Kind.INT, ignored=True)),
        source="NVIDIA DL4AGX, Autoware",
    ),
    _bevformer("MultiScaleDeformableAttnTRT"),
    _bevformer("MultiScaleDeformableAttnTRT2"),
)

"""Lists the forms in which other tools write multi-scale deformable attention."""

from __future__ import annotations

from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import TYPE_VARIABLES, Alias, AliasedNode, Attr, Kind, Refusal

_PLUGIN_INPUTS = ("value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights")

_SPLIT_HEADS = """
ms_zero = Constant <value = int64[1] {0}> ()
ms_two = Constant <value = int64[1] {2}> ()
ms_four = Constant <value = int64[1] {4}> ()
ms_weights_shape = Shape ({weights})
ms_value_shape = Shape (value)
ms_batch_queries = Slice (ms_weights_shape, ms_zero, ms_two)
ms_heads_channels = Slice (ms_value_shape, ms_two, ms_four)
ms_output_shape = Concat <axis = 0> (ms_batch_queries, ms_heads_channels)
attention = Reshape (output, ms_output_shape)
"""


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
attention_logits = Reshape (logits, bf_weights_shape)
bf_offsets_shape = Concat <axis = 0> (bf_weights_shape, bf_two)
sampling_offsets = Reshape (offsets, bf_offsets_shape)
bf_reference_shape = Shape (points)
bf_batch_queries = Slice (bf_reference_shape, bf_zero, bf_two)
bf_reference_numbers = Slice (bf_reference_shape, bf_three, bf_four)
bf_references = Div (bf_reference_numbers, bf_two)
bf_points_shape = Concat <axis = 0> (bf_batch_queries, bf_one, bf_references, bf_two)
bf_reference = Reshape (points, bf_points_shape)
reference_points = Cast <to = 1> (bf_reference)
"""
"""Point p of every level belongs to reference point p mod G, offsets are in pixels and softmax goes over all samples, as the
operator has it; levels are stored one after the other."""


def _bevformer(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=(),
        inputs=("value", "shapes", "points", "offsets", "logits"),
        outputs=("attention",),
        guard=_bevformer_guard,
        prologue=_BEVFORMER_PROLOGUE,
        epilogue=_SPLIT_HEADS.replace("{weights}", "attention_logits"),
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
        epilogue=_SPLIT_HEADS.replace("{weights}", "attention_weights"),
        source="NVIDIA TensorRT OSS",
    ),
    Alias(
        op_type="MultiScaleDeformableAttentionPlugin",
        domains=("custom_op",),
        inputs=_PLUGIN_INPUTS,
        attributes=(Attr("im2col_step", Kind.INT, ignored=True), Attr("iLayer", Kind.INT, ignored=True)),
        source="NVIDIA DL4AGX, Autoware",
    ),
)
"""Of the operator that is given locations and weights."""

OFFSET_ALIASES = (_bevformer("MultiScaleDeformableAttnTRT"), _bevformer("MultiScaleDeformableAttnTRT2"))
"""Of the operator that makes them of reference points, offsets and logits."""

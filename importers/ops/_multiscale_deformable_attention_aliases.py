"""Lists the forms in which other tools write multi-scale deformable attention."""

from __future__ import annotations

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import TYPE_VARIABLES, Alias, AliasedNode, Attr, Kind, Refusal

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
        epilogue=_split_heads,
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

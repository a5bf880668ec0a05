"""Lists the forms in which other tools write RoI align.

ONNX's own RoiAlign is none of them: TensorRT imports it, and a rule writes the plugin for TensorRT-RTX.
"""

from __future__ import annotations

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import describe
from trtsmith.importers.opdef import TYPE_VARIABLES, Alias, AliasedNode, Fields, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal
from trtsmith.importers.ops.regions._pyramid_plugin import PYRAMID_PLUGIN
from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, MAXIMUM_CORNER, MOST_SAMPLES

_MODES = {"avg": AVERAGE, "max": MAXIMUM}


def sampling_refusal(node: AliasedNode) -> Refusal | None:
    """Refuses too many samples a bin, since the kernel computes them one by one."""
    if node.attrs["sampling_ratio"] > MOST_SAMPLES:
        return Refusal(
            f"sampling_ratio = {node.attrs['sampling_ratio']}",
            f"at most {MOST_SAMPLES}",
            "take fewer samples",
        )
    return None


def _mmcv_guard(node: AliasedNode) -> Refusal | None:
    if node.attrs["mode"] not in _MODES:
        return Refusal(
            f"attribute 'mode' is {node.attrs['mode']!r}",
            "'avg' or 'max'",
            "export the node with one of them",
        )
    return sampling_refusal(node)


def _mmcv_fields(node: AliasedNode) -> Fields:
    fields = {name: value for name, value in node.attrs.items() if name != "mode"}
    return fields | {"pooling": _MODES[node.attrs["mode"]]}


def renamed(
    node: AliasedNode, *names: str, bins: tuple[str, str] = ("pooled_height", "pooled_width")
) -> Fields:
    """Returns the node's fields under the plugin's names. bins: the node's names for the numbers of bins."""
    height, width = (node.attrs[name] for name in bins)
    same = {name: node.attrs[name] for name in ("spatial_scale", "sampling_ratio", *names)}
    return {"output_height": height, "output_width": width, **same}


def _plugin_guard(node: AliasedNode) -> Refusal | None:
    """What NVIDIA's plugin asserts of its attributes and inputs."""
    flags = {"mode": FLAG, "coordinate_transformation_mode": FLAG}
    if (refusal := value_refusal(node, flags)) is not None:
        return refusal
    rois = node.shapes.get("boxes")
    if rois is not None and (len(rois) != 2 or rois[1] not in (None, 4)):
        return Refusal(f"the second input is {describe(rois)}", "[K, 4]", "give images as the third input")
    return sampling_refusal(node)


def _plugin_fields(node: AliasedNode) -> Fields:
    """Its maximum is that of corners times weights, and not of samples (roiAlignKernel.cu)."""
    return {
        **renamed(node, bins=("output_height", "output_width")),
        "aligned": node.attrs["coordinate_transformation_mode"],
        "pooling": AVERAGE if node.attrs["mode"] == 1 else MAXIMUM_CORNER,
    }


def _join_images(node: AliasedNode) -> dict[str, Value]:
    """Images in the dtype of the boxes: float16 has all up to 2048, bfloat16 up to 256."""
    g = node.builder()
    dtype = node.dtypes.get("boxes")
    numbers = g.Cast("images", to=dtype if dtype in TYPE_VARIABLES["T"] else "float32")
    return {"rois": g.Concat(g.Reshape(numbers, [-1, 1]), "boxes", axis=1)}


def _plugin(op_type: str, source: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("trt", "TRT"),
        inputs=("x", "boxes", "images"),
        attributes=attrs(
            coordinate_transformation_mode=1,
            mode=1,
            output_height=1,
            output_width=1,
            sampling_ratio=0,
            spatial_scale=1.0,
        ),
        guard=_plugin_guard,
        fields=_plugin_fields,
        prologue=_join_images,
        source=source,
    )


def caffe2_guard(node: AliasedNode, numbers: int) -> Refusal | None:
    """Refuses what Caffe2 has and the plugin lacks: channels last, and regions without the number of their image."""
    if node.attrs["order"] != "NCHW":
        return Refusal(
            f"attribute 'order' is {node.attrs['order']!r}", "'NCHW'", "export the node with order NCHW"
        )
    rois = node.shapes.get("rois")
    if rois is not None and (len(rois) != 2 or rois[1] not in (None, numbers)):
        return Refusal(
            f"the second input is {describe(rois)}",
            f"[K, {numbers}]",
            "export regions with the number of their image",
        )
    return sampling_refusal(node)


CAFFE2_ATTRIBUTES = attrs(
    order="NCHW", spatial_scale=1.0, pooled_h=1, pooled_w=1, sampling_ratio=-1, aligned=0
)


def caffe2_fields(node: AliasedNode) -> Fields:
    """Returns the fields that Caffe2's operators for plain and for rotated boxes share."""
    return renamed(node, "aligned", bins=("pooled_h", "pooled_w"))


ALIASES = (
    Alias(
        op_type="MMCVRoiAlign",
        domains=("mmcv", "mmdeploy"),
        inputs=("x", "rois"),
        attributes=attrs(
            output_height=7, output_width=7, spatial_scale=1.0, sampling_ratio=0, mode=str, aligned=1
        ),
        guard=_mmcv_guard,
        fields=_mmcv_fields,
        source="mmdeploy, trt_roi_align; mmcv",
    ),
    Alias(
        op_type="roi_align",
        domains=("torchvision",),
        inputs=("x", "rois"),
        constants=attrs(
            spatial_scale=float, pooled_height=int, pooled_width=int, sampling_ratio=int, aligned=int
        ),
        guard=sampling_refusal,
        fields=lambda node: {**renamed(node, "aligned"), "pooling": AVERAGE},
        source="torchvision ops/roi_align",
    ),
    _plugin("ROIAlign_TRT", "NVIDIA TensorRT OSS, roiAlignPlugin"),
    _plugin("ROIAlignX_TRT", "DeepStream-Yolo-Seg, after NVIDIA's roiAlignPlugin"),
    Alias(
        op_type="RoIAlign",
        domains=("org.pytorch._caffe2",),
        inputs=("x", "rois"),
        attributes=CAFFE2_ATTRIBUTES,
        guard=lambda node: caffe2_guard(node, 5),
        fields=lambda node: {**caffe2_fields(node), "pooling": AVERAGE},
        source="Caffe2, roi_align_op; detectron2's export for it",
    ),
    PYRAMID_PLUGIN,
)

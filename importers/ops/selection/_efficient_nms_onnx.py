"""Describes EfficientNMS_ONNX_TRT: rows (image, class, box) of all images, the last one repeated to the end.

Images come in their order; in NVIDIA's they come as its blocks end. `max_output_boxes_per_class` is what an image has, of
all classes together.
"""

from __future__ import annotations

from trtsmith.importers.builder import Value
from trtsmith.importers.opdef import Alias, AliasedNode, Fields, attrs
from trtsmith.importers.ops.selection._batched_nms import plain_fields


def _fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return plain_fields(
        score_threshold=attrs["score_threshold"],
        iou_threshold=attrs["iou_threshold"],
        inclusive=1,
        max_output_boxes=attrs["max_output_boxes_per_class"],
        box_coding=attrs["center_point_box"],
        class_major=0,
    )


def _rows(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    classes, boxes = g.inputs("detection_classes", "detection_indices")
    shape = g.Shape(classes)
    images, most = shape[:1], shape[1:2]
    count = images * most
    column = g.vector(count, 1)
    counts = g.Reshape(g.Cast("num_detections", to="int64"), images)
    ends = g.CumSum(counts, 0)
    starts, total = ends - counts, ends[-1:]
    row = g.arange(count)
    at = g.Where(row < total, row, total - [1])
    before = g.Cast(g.Reshape(at, column) < ends, to="int32")
    image = g.ArgMax(before, axis=1, keepdims=0)
    place_or_less = image * most + (at - g.Gather(starts, image, axis=0))
    place = g.Where(place_or_less < 0, 0, place_or_less)
    class_, box = (
        g.Cast(g.Gather(g.Reshape(value, count), place, axis=0), to="int64") for value in (classes, boxes)
    )
    image_or_none = g.Where(class_ < 0, -1, image)
    columns = [g.Reshape(value, column) for value in (image_or_none, class_, box)]
    return {"rows": g.Cast(g.Concat(*columns, axis=1), to="int32")}


EFFICIENT_NMS_ONNX = (
    Alias(
        op_type="EfficientNMS_ONNX_TRT",
        domains=("TRT", "trt"),
        inputs=("boxes", "scores"),
        attributes=attrs(
            score_threshold=float, iou_threshold=float, max_output_boxes_per_class=int, center_point_box=0
        ),
        outputs=("rows",),
        fields=_fields,
        epilogue=_rows,
        source="NVIDIA TensorRT OSS to release 10.15, efficientNMSPlugin",
    ),
)

"""Says how EfficientNMS_ONNX_TRT is written: rows (image, class, box) of all images, the last one repeated to the end.

Images come in their order; in NVIDIA's they come as its blocks end. `max_output_boxes_per_class` is what an image has, of
all classes together.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind


def _fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return {
        "score_threshold": attrs["score_threshold"],
        "iou_threshold": attrs["iou_threshold"],
        "inclusive": 1,
        "max_output_boxes": attrs["max_output_boxes_per_class"],
        "topk": 0,
        "background_class": -1,
        "class_agnostic": 0,
        "box_coding": attrs["center_point_box"],
        "prob_iou": 0,
        "polygon_iou": 0,
        "pixels": 0,
        "clip": 0,
        "class_major": 0,
        "zero_filler": 0,
    }


_ROWS = """
eo_zero = Constant <value = int64[1] {0}> ()
eo_one = Constant <value = int64[1] {1}> ()
eo_two = Constant <value = int64[1] {2}> ()
eo_minus = Constant <value = int64[1] {-1}> ()
eo_end = Constant <value = int64[1] {9223372036854775807}> ()
eo_none = Constant <value = int64 {0}> ()
eo_unit = Constant <value = int64 {1}> ()
eo_nobody = Constant <value = int64 {-1}> ()
eo_shape = Shape (detection_classes)
eo_images = Slice (eo_shape, eo_zero, eo_one)
eo_most = Slice (eo_shape, eo_one, eo_two)
eo_count_long = Mul (eo_images, eo_most)
eo_counts_table = Cast <to = 7> (num_detections)
eo_counts = Reshape (eo_counts_table, eo_images)
eo_ends = CumSum (eo_counts, eo_none)
eo_starts = Sub (eo_ends, eo_counts)
eo_total = Slice (eo_ends, eo_minus, eo_end)
eo_last = Sub (eo_total, eo_one)
eo_rows_scalar = Squeeze (eo_count_long)
eo_row = Range (eo_none, eo_rows_scalar, eo_unit)
eo_real = Less (eo_row, eo_total)
eo_at = Where (eo_real, eo_row, eo_last)
eo_column_shape = Concat <axis = 0> (eo_count_long, eo_one)
eo_at_column = Reshape (eo_at, eo_column_shape)
eo_before = Less (eo_at_column, eo_ends)
eo_before_number = Cast <to = 6> (eo_before)
eo_image = ArgMax <axis = 1, keepdims = 0> (eo_before_number)
eo_start = Gather <axis = 0> (eo_starts, eo_image)
eo_offset = Sub (eo_at, eo_start)
eo_first = Mul (eo_image, eo_most)
eo_place_or_less = Add (eo_first, eo_offset)
eo_outside = Less (eo_place_or_less, eo_none)
eo_place = Where (eo_outside, eo_none, eo_place_or_less)
eo_classes = Reshape (detection_classes, eo_count_long)
eo_boxes = Reshape (detection_indices, eo_count_long)
eo_class_given = Gather <axis = 0> (eo_classes, eo_place)
eo_box_given = Gather <axis = 0> (eo_boxes, eo_place)
eo_class = Cast <to = 7> (eo_class_given)
eo_box = Cast <to = 7> (eo_box_given)
eo_nothing = Less (eo_class, eo_none)
eo_image_or_none = Where (eo_nothing, eo_nobody, eo_image)
eo_first_column = Reshape (eo_image_or_none, eo_column_shape)
eo_second_column = Reshape (eo_class, eo_column_shape)
eo_third_column = Reshape (eo_box, eo_column_shape)
eo_table = Concat <axis = 1> (eo_first_column, eo_second_column, eo_third_column)
rows = Cast <to = 6> (eo_table)
"""

EFFICIENT_NMS_ONNX = (
    Alias(
        op_type="EfficientNMS_ONNX_TRT",
        domains=("TRT", "trt"),
        inputs=("boxes", "scores"),
        attributes=(
            Attr("score_threshold", Kind.FLOAT),
            Attr("iou_threshold", Kind.FLOAT),
            Attr("max_output_boxes_per_class", Kind.INT),
            Attr("center_point_box", Kind.INT, 0),
        ),
        outputs=("rows",),
        fields=_fields,
        epilogue=_ROWS,
        source="NVIDIA TensorRT OSS to release 10.15, efficientNMSPlugin",
    ),
)

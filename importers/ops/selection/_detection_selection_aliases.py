"""Lists the forms in which other tools write the selection of detections."""

from __future__ import annotations

from trtsmith.importers.ops.selection._batched_nms import BATCHED_NMS
from trtsmith.importers.ops.selection._decoded_boxes import DECODED_BOXES
from trtsmith.importers.ops.selection._efficient_nms import EFFICIENT_NMS
from trtsmith.importers.ops.selection._efficient_nms_onnx import EFFICIENT_NMS_ONNX

ALIASES = (*EFFICIENT_NMS, *EFFICIENT_NMS_ONNX, *BATCHED_NMS, *DECODED_BOXES)

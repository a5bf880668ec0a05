"""Provides custom operators as the exporters of other projects write them: foreign nodes in a file, ours in PyTorch.

Outside an export each function computes with torch.ops.trtsmith; within torch.export it stands for one foreign node.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import trtsmith.importers.torch_ops  # noqa: F401  registers torch.ops.trtsmith


def efficient_nms(
    boxes: Tensor, scores: Tensor, *, score_threshold: float, iou_threshold: float, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """EfficientNMS_TRT: corners [N,B,4] and scores [N,B,C] of each class -> number of detections [N,1], and of the best
    `rows` corners [N,rows,4], scores and classes [N,rows]; zeros behind the last detection."""
    batch = scores.shape[0]
    if torch.compiler.is_exporting():
        number, found, best, classes = torch.onnx.ops.symbolic_multi_out(
            "TRT::EfficientNMS_TRT",
            (boxes, scores),
            {
                "score_threshold": score_threshold,
                "iou_threshold": iou_threshold,
                "max_output_boxes": rows,
                "background_class": -1,
                "score_activation": 0,
                "class_agnostic": 0,
                "box_coding": 0,
                "plugin_version": "1",
            },
            dtypes=(torch.int32, boxes.dtype, scores.dtype, torch.int32),
            shapes=((batch, 1), (batch, rows, 4), (batch, rows), (batch, rows)),
            version=1,
        )
        return number, found, best, classes
    settings: dict[str, Any] = {"inclusive": 1, "zero_filler": 1}
    number, found, best, classes, _ = torch.ops.trtsmith.detection_selection(
        boxes,
        scores,
        score_threshold=score_threshold,
        iou_threshold=iou_threshold,
        max_output_boxes=rows,
        **settings,
    )
    return number, found, best, classes

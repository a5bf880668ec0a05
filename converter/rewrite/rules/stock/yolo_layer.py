"""Rewrites YoloLayer_TRT, which decodes YOLOv5's three maps and keeps boxes with an object.

Source: NVIDIA-AI-IOT/yolov5_gpu_optimization, 0001-Enable-onnx-export-with-decode-plugin.patch and deepstream-sample/
yoloPlugins.cpp, yoloForward_nc.cu. Of a map [N, 3 * (5 + classes), H, W], t being what the sigmoid gave: the centre is
(2 t - 0.5 + cell) * network / map along each axis, the size (2 t)^2 * anchor; the network is as large as the last map times
max_stride. A box with objectness >= prenms_score_threshold has the score objectness * best class; the class is -1 where no
class is above zero. The kernel's rows come in the order in which threads get to them, here in that of the maps; behind them
are zeros.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)
from trtsmith.importers.dims import describe

_ANCHORS = 3
"""Of each map."""

_OPSET = 13


def _decode(w: Writer, dtype: str) -> Replacement | Refusal:
    given = settings(w.node, max_stride=32, num_classes=80, anchors=np.zeros(0), prenms_score_threshold=0.0)
    require_opset(w.node, _OPSET, w.node.op_type)
    anchors, classes = given["anchors"], given["num_classes"]
    if anchors.size != 6 * _ANCHORS:
        fix = "give the widths and heights of three anchors for each of the three maps"
        return Refusal(f"it has {anchors.size} numbers in 'anchors'", f"{6 * _ANCHORS} numbers", fix)
    channels = _ANCHORS * (5 + classes)
    for at in range(3):
        if (dims := w.node.shape(at)) is not None and (len(dims) != 4 or dims[1] not in (channels, None)):
            return Refusal(
                f"num_classes is {classes}, and its map {w.node.input(at)!r} is {describe(dims)}",
                f"[N, {channels}, H, W]: three anchors of 5 + num_classes numbers",
                "correct 'num_classes', or the map where the model is exported",
            )
    last = w.x[2]
    rows = [
        _rows(w, index, last, anchors.reshape(3, 1, _ANCHORS, 1, 1, 2)[index], classes, given["max_stride"])
        for index in range(3)
    ]
    boxes = w.Concat(*rows, axis=1)  # [N, R, (x1, y1, x2, y2, score, class, objectness)]
    kept = w.Not(w.Less(w.slice(boxes, [6], [7], [2]), float(given["prenms_score_threshold"])))
    counted = w.CumSum(w.Cast(kept, to="int64"), 1)
    total = w.size(boxes, 1)
    place = w.Where(kept, w.Sub(counted, 1), total)
    six = w.slice(boxes, [0], [6], [2])
    index = w.Expand(place, w.Shape(six))
    padded = w.Concat(w.size(boxes, 0), w.Add(total, [1]), [6], axis=0)
    zeros = w.Expand(np.zeros((1, 1, 1), np.float32), padded)
    found = w.ScatterElements(zeros, index, six, axis=1)
    found = w.Slice(found, [0], total, [1])  # without the row that took the others
    number = w.Cast(w.reduce("ReduceSum", w.Cast(kept, to="int64"), [1], keepdims=False), to="int32")
    corners = narrow(w, w.slice(found, [0], [4], [2]), dtype)
    scores = narrow(w, w.squeeze(w.slice(found, [4], [5], [2]), [2]), dtype)
    labels = w.Cast(w.squeeze(w.slice(found, [5], [6], [2]), [2]), to="int32")
    return Replacement(
        w.finish(number, corners, scores, labels), "decoded maps, and ScatterElements of what is kept"
    )


def _rows(w: Writer, index: int, last: Value, anchors: np.ndarray, classes: int, stride: int) -> Value:
    """float32 [N, 3 * H * W, 7] from one map: corners, score, class, objectness."""
    data = wide(w, index)
    shape = w.Concat([0, _ANCHORS, 5 + classes], w.size(data, 2), w.size(data, 3), axis=0)
    cells = w.Transpose(w.Reshape(data, shape), perm=[0, 1, 3, 4, 2])  # [N, 3, H, W, 5 + classes]
    centre, size, objectness, scores = w.split(cells, [2, 2, 1, classes], 4)
    steps, places = [], []
    for axis, place in ((3, [1, 1, 1, -1, 1]), (2, [1, 1, -1, 1, 1])):
        count = w.Cast(w.size(data, axis), to="float32")
        steps.append(w.Div(w.Mul(w.Cast(w.size(last, axis), to="float32"), float(stride)), count))
        places.append(w.Reshape(w.Cast(w.arange(w.size(data, axis)), to="float32"), shape=place))
    x, y = w.split(w.Sub(w.Mul(centre, 2.0), 0.5), [1, 1], 4)
    middle = w.Concat(w.Mul(w.Add(x, places[0]), steps[0]), w.Mul(w.Add(y, places[1]), steps[1]), axis=4)
    doubled = w.Mul(size, 2.0)
    half = w.Mul(w.Mul(w.Mul(doubled, doubled), anchors.astype(np.float32)), 0.5)
    best = w.reduce("ReduceMax", scores, [4])
    label = w.Cast(w.ArgMax(scores, axis=4), to="float32")
    label = w.Where(w.Greater(best, 0.0), label, -1.0)
    score = w.Mul(objectness, w.Max(best, 0.0))
    joined = w.Concat(w.Sub(middle, half), w.Add(middle, half), score, label, objectness, axis=4)
    return w.Reshape(joined, shape=[0, -1, 7])


STOCK_YOLO_LAYER = NodeRule(
    "stock-yolo-layer",
    "YOLOv5's decoding of three maps becomes standard operators",
    kinds("YoloLayer_TRT"),
    rewriter({"YoloLayer_TRT": PluginForm(_decode, least=3, floats=(0, 1, 2), results=4, alike=True)}),
    opset=_OPSET,
)

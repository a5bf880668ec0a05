"""Rewrites detections of SSD and proposals of Faster R-CNN, whose boxes are moved priors or anchors.

Sources, of NVIDIA/TensorRT to release 10.16, under plugin/:
- nmsPlugin; common/kernels/decodeBBoxes.cu, detectionForward.cu, gatherTopDetections.cu;
- proposalPlugin; common/kernels/proposalKernel.cu.

Differences that are meant: more rows than candidates of a class, for which NMS_TRT writes nothing, are filled; with pixels,
boxes that do not touch have nothing in common; and the second output of NMS_TRT is a number, where the plugin leaves the
bits of an int32 in a tensor of floats.
"""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import describe
from trtsmith.importers.dtypes import FLOATS
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal, attrs
from trtsmith.importers.ops._shared import FLAG, value_refusal
from trtsmith.importers.ops.selection._batched_nms import plain_fields

_CORNER, _CENTRE, _CORNER_SIZE, _TF_CENTRE = range(4)

_LAST = -60_000.0
"""Score of a proposal that is too small, behind every probability; half precision has it, too."""


def _number(node: AliasedNode, name: str) -> str:
    dtype = node.dtypes.get(name)
    return dtype if dtype in FLOATS else "float32"


_FLAGS = ("shareLocation", "varianceEncodedInTarget", "confSigmoid", "isNormalized", "isBatchAgnostic")


def _nms_guard(node: AliasedNode) -> Refusal | None:
    attrs = node.attrs
    least = {"numClasses": 1, "topK": 1, "confidenceThreshold": 0, "nmsThreshold": 0}
    flags = {name: FLAG for name in _FLAGS if name in attrs}  # NMSDynamic_TRT lacks the last
    if (refusal := value_refusal(node, {**flags, **least, "codeType": (0, 1, 2, 3)})) is not None:
        return refusal
    if sorted(attrs["inputOrder"]) != [0, 1, 2]:
        return Refusal(
            f"inputOrder = {list(attrs['inputOrder'])}",
            "inputOrder: the numbers of the inputs for locations, scores and priors",
            "correct 'inputOrder'",
        )
    return None


def _nms_fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return plain_fields(
        score_threshold=attrs["confidenceThreshold"],
        iou_threshold=attrs["nmsThreshold"],
        max_output_boxes=attrs["keepTopK"],
        topk=attrs["topK"],
        background_class=attrs["backgroundLabelId"],
        pixels=1 - attrs["isNormalized"],
        clip=1,
        box_coding=int(attrs["codeType"] in (_CENTRE, _TF_CENTRE)),
    )


def _decoded(node: AliasedNode) -> dict[str, Value]:
    """Locations [N, R * groups * 4, 1, 1], scores [N, R * C, 1, 1], priors and variances [N, 2, R * 4, 1]."""
    g, attrs = node.builder(), node.attrs
    given = g.inputs("first", "second", "third")
    location, score, prior = (given[place] for place in attrs["inputOrder"])
    code, batch = attrs["codeType"], g.Shape(score)[:1]
    scores = g.Reshape(score, [batch, -1, attrs["numClasses"]])
    moved = g.Reshape(location, [batch, -1, 1 if attrs["shareLocation"] else attrs["numClasses"], 4])
    tables = g.Reshape(prior, [0, 2, -1, 1, 4])
    tables = g.Slice(tables, [0], [1], [0]) if attrs.get("isBatchAgnostic", 0) else tables
    anchor, variance = (g.Gather(tables, number, axis=1) for number in range(2))
    if code == _TF_CENTRE:
        moved = g.Gather(moved, [1, 0, 3, 2], axis=3)
    if not attrs["varianceEncodedInTarget"] or code == _TF_CENTRE:
        moved = moved * variance
    low, high = g.Slice(anchor, [0], [2], [3]), g.Slice(anchor, [2], [4], [3])
    size = high - low
    if code == _CORNER:
        boxes = anchor + moved
    elif code == _CORNER_SIZE:
        boxes = anchor + moved * g.Concat(size, size, axis=3)
    else:
        middle = g.Slice(moved, [0], [2], [3]) * size + g.Mean(low, high)
        boxes = g.Concat(middle, g.Exp(g.Slice(moved, [2], [4], [3])) * size, axis=3)
    return {"boxes": boxes, "scores": g.Sigmoid(scores) if attrs["confSigmoid"] else scores}


def _seven_columns(node: AliasedNode) -> dict[str, Value]:
    """Image, class, score and corners of each detection, and how many there are."""
    g, number, most = node.builder(), _number(node, "first"), node.attrs["keepTopK"]
    boxes, score, label, count = g.inputs(
        "detection_boxes", "detection_scores", "detection_classes", "num_detections"
    )
    batch = g.Shape(score)[:1]
    images = g.Expand(g.Reshape(g.arange(batch), [-1, 1, 1]), [batch, most, 1])
    columns = [
        g.Cast(images, to=number),
        g.Cast(g.Reshape(label, [batch, most, 1]), to=number),
        g.Reshape(score, [batch, most, 1]),
        boxes,
    ]
    found = g.Reshape(g.Concat(*columns, axis=2), [batch, 1, most, 7])
    return {"detections": found, "kept": g.Reshape(g.Cast(count, to="float32"), [-1, 1, 1, 1])}


def _nms(op_type: str, *attributes: Attr) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("TRT", "trt"),
        inputs=("first", "second", "third"),
        attributes=(
            *attrs(shareLocation=int, varianceEncodedInTarget=int, backgroundLabelId=int, numClasses=int),
            *attrs(topK=int, keepTopK=int, confidenceThreshold=float, nmsThreshold=float),
            Attr("inputOrder", Kind.INTS, (0, 2, 1), lengths=(3,)),
            *attrs(confSigmoid=int, isNormalized=int),
            Attr("codeType", Kind.INT, _TF_CENTRE),
            Attr("scoreBits", Kind.INT, 16, ignored=True),
            *attributes,
        ),
        outputs=("detections", "kept"),
        guard=_nms_guard,
        fields=_nms_fields,
        prologue=_decoded,
        epilogue=_seven_columns,
        source="NVIDIA TensorRT OSS to release 10.16, nmsPlugin; TAO's exporter of Faster R-CNN",
    )


_SIZES = ("input_height", "input_width", "rpn_stride", "pre_nms_top_n")


def _proposal_guard(node: AliasedNode) -> Refusal | None:
    attrs = node.attrs
    least = dict(zip(_SIZES, (2, 2, 1, 1), strict=True)) | {"roi_min_size": 0, "nms_iou_threshold": 0}
    if (refusal := value_refusal(node, least)) is not None:
        return refusal
    for name in ("anchor_sizes", "anchor_ratios"):
        if not attrs[name] or min(attrs[name]) <= 0:
            return Refusal(f"{name} = {list(attrs[name])}", f"{name}: numbers above 0", f"correct {name!r}")
    shape, anchors = node.shapes.get("deltas"), len(attrs["anchor_sizes"]) * len(attrs["anchor_ratios"])
    if shape is not None and (len(shape) != 4 or shape[1] not in (4 * anchors, None)):
        return Refusal(
            f"'anchor_sizes' and 'anchor_ratios' make {anchors} anchors, and the deltas are {describe(shape)}",
            f"[N, {4 * anchors}, H, W]: four numbers for each anchor",
            "correct these attributes",
        )
    return None


def _proposal_fields(node: AliasedNode) -> Fields:
    attrs = node.attrs
    return plain_fields(
        score_threshold=2 * _LAST,
        iou_threshold=attrs["nms_iou_threshold"],
        max_output_boxes=attrs["post_nms_top_n"],
        topk=attrs["pre_nms_top_n"],
        zero_filler=1,
    )


_LAST_PIXEL = np.array([0, 0, 1, 1], np.float32)
"""Sides of proposals count their last pixel when they are compared."""


def _proposed(node: AliasedNode) -> dict[str, Value]:
    """Anchors size by size, their centres in the middles of cells, moved by (x, y, w, h) and cut to the image."""
    g, attrs = node.builder(), node.attrs
    scores, deltas = (g.Cast(value, to="float32") for value in g.inputs("probabilities", "deltas"))
    root = np.sqrt(np.array(attrs["anchor_ratios"], np.float32))
    size = np.array(attrs["anchor_sizes"], np.float32)[:, None]
    anchors = np.stack([size * root, size / root], axis=-1).reshape(-1, 1, 1, 2)
    sides = g.Shape(deltas)
    batch, height, width = (sides[axis : axis + 1] for axis in (0, 2, 3))
    moved = g.Transpose(g.Reshape(deltas, [batch, len(anchors), 4, height, width]), perm=[0, 1, 3, 4, 2])
    places = []
    for count, shape in ((width, [1, 1, -1, 1]), (height, [1, -1, 1, 1])):
        middles = (g.Cast(g.arange(count), to="float32") + 0.5) * float(attrs["rpn_stride"])
        places.append(g.Expand(g.Reshape(middles, shape), [1, height, width, 1]))
    middle = g.Slice(moved, [0], [2], [4]) * anchors + g.Concat(*places, axis=3)
    half = g.Exp(g.Slice(moved, [2], [4], [4])) * anchors * 0.5
    last = np.array([attrs["input_width"] - 1, attrs["input_height"] - 1], np.float32)
    low, high = (g.Min(g.Max(corner, 0.0), last) for corner in (middle - half, middle + half))
    across, down = (g.Slice(high - low, [axis], [axis + 1], [4]) for axis in range(2))
    large = g.Min(across, down) > float(attrs["roi_min_size"])
    ranked = g.Where(large, g.Reshape(scores, [batch, len(anchors), height, width, 1]), _LAST)
    number = _number(node, "probabilities")
    boxes = g.Concat(low, high, axis=4) + _LAST_PIXEL
    made = {"boxes": g.Reshape(boxes, [batch, -1, 4]), "scores": g.Reshape(ranked, [batch, -1, 1])}
    return {name: g.Cast(value, to=number) for name, value in made.items()}


def _of_image(node: AliasedNode) -> dict[str, Value]:
    """(y, x, y, x) as shares of the image, [N, R, 4, 1]; zeros in spare rows."""
    g, attrs = node.builder(), node.attrs
    boxes, count = g.inputs("detection_boxes", "num_detections")
    most, last = attrs["post_nms_top_n"], [attrs["input_height"] - 1, attrs["input_width"] - 1]
    corners = g.Gather(g.Cast(boxes, to="float32") - _LAST_PIXEL, [1, 0, 3, 2], axis=2)
    shares = corners / np.array(last * 2, np.float32)
    found = g.Reshape(g.Range(np.int32(0), np.int32(most), np.int32(1)) < count, [-1, most, 1])
    kept = g.Reshape(g.Where(found, shares, 0.0), [-1, most, 4, 1])
    return {"rois": g.Cast(kept, to=_number(node, "probabilities"))}


def _proposal(op_type: str) -> Alias:
    return Alias(
        op_type=op_type,
        domains=("TRT", "trt"),
        inputs=("probabilities", "deltas"),
        attributes=(
            *(Attr(name, Kind.INT) for name in (*_SIZES, "post_nms_top_n")),
            *attrs(roi_min_size=float, nms_iou_threshold=float),
            Attr("anchor_sizes", Kind.FLOATS),
            Attr("anchor_ratios", Kind.FLOATS),
        ),
        outputs=("rois",),
        guard=_proposal_guard,
        fields=_proposal_fields,
        prologue=_proposed,
        epilogue=_of_image,
        source="NVIDIA TensorRT OSS to release 10.16, proposalPlugin; TAO's exporter of Faster R-CNN",
    )


DECODED_BOXES = (
    _nms("NMSDynamic_TRT", Attr("isBatchAgnostic", Kind.INT, ignored=True)),
    _nms("NMS_TRT", Attr("isBatchAgnostic", Kind.INT, 1)),
    _proposal("ProposalDynamic"),
    _proposal("Proposal"),
)

"""Non-maximum suppression as ONNX has it: the number of results depends on values.

NonMaxSuppression in other operators of ONNX.

Boxes that no class may take are left out before. All arithmetic is that of ONNX's own operator, in float32: corners, areas,
and intersection over union, so that no box is on the other side of a threshold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    attrs,
)
from trtsmith.importers.ops._shared import FLAG, flag, value_refusal
from trtsmith.importers.ops.selection._selected_boxes import (
    NO_LIMIT,
    SELECTED,
    box_faults,
    kept,
    one_image,
    selected_bounds,
    selected_shape,
)
from trtsmith.importers.ops.selection._selection_loop_onnx import SelectionLoop


def expand(expansion: Expansion) -> tuple[Value, Value]:
    """Expands the operator. A box with a NaN or infinite corner has no area here, and so overlaps none."""
    g = Builder(expansion.opset)
    (scores,) = g.inputs("scores")
    limited = "score_threshold" in expansion.present
    loop = SelectionLoop(g, scores > "score_threshold" if limited else g.Equal(scores, scores))
    given = [loop.number(i) for i in range(4)]
    if expansion.fields["center_point_box"]:
        x, y, half_width, half_height = given[0], given[1], given[2] / 2.0, given[3] / 2.0
        low_y, low_x, high_y, high_x = y - half_height, x - half_width, y + half_height, x + half_width
    else:
        low_y, low_x = g.Min(given[0], given[2]), g.Min(given[1], given[3])
        high_y, high_x = g.Max(given[0], given[2]), g.Max(given[1], given[3])
    no_numbers = g.IsNaN(g.Sum(low_y, low_x, high_y, high_x))
    area = g.Where(no_numbers, 0.0, (high_y - low_y) * (high_x - low_x))
    columns = (low_y, low_x, high_y, high_x, area)
    y0, x0, y1, x1, area = map(loop.row, columns)
    lists = [g.Reshape(column, [-1]) for column in columns]

    def overlaps(place: Value) -> Value:
        best_y0, best_x0, best_y1, best_x1, best_area = (g.Gather(each, place, axis=0) for each in lists)
        common_y = g.Min(y1, best_y1) - g.Max(y0, best_y0)
        common_x = g.Min(x1, best_x1) - g.Max(x0, best_x0)
        common = common_y * common_x
        either = area + best_area - common
        real_boxes = (common_y > 0.0) & (common_x > 0.0) & ((area > 0.0) & (best_area > 0.0))
        real = real_boxes & ((common > 0.0) & (either > 0.0))
        return (common / either > "iou_threshold") & real

    most = expansion.fields["most"]
    bounds = ["max_output_boxes_per_class", most, loop.boxes_left]
    wanted, _ = g.TopK(bounds, [1], axis=0, largest=0, outputs=2)
    steps, _ = g.TopK([wanted, 0], [1], axis=0, outputs=2)
    return loop.select(steps, overlaps)


def _fields(_node: AliasedNode) -> Fields:
    return {"center_point_box": 0, "most": NO_LIMIT}


def _prologue(node: AliasedNode) -> dict[str, Value]:
    """One image and one class. Boxes of half precision are compared in float32.

    With an offset, sides of boxes, and of what two have in common, are larger by it.
    """
    g = node.builder()
    rows, scores = (
        value if node.dtypes.get(value.name) == "float32" else g.Cast(value, to="float32")
        for value in g.inputs("rows", "row_scores")
    )
    made = one_image(rows, scores)
    if node.attrs.get("offset", 0):
        made["boxes"] += np.array([0, 0, 1, 1], np.float32)
    return {
        **made,
        "max_output_boxes_per_class": g.constant([NO_LIMIT]),
        "iou_threshold": g.constant([node.attrs["iou_threshold"]]),
    }


def _mmcv_guard(node: AliasedNode) -> Refusal | None:
    if (refusal := value_refusal(node, {"iou_threshold": 0})) is not None or node.attrs["offset"] in FLAG:
        return refusal
    return Refusal(
        f"offset = {node.attrs['offset']}, which the plugin adds to the sides of boxes",
        "offset = 0 or 1",
        "correct 'offset'",
    )


_TORCHVISION = Alias(
    op_type="nms",
    domains=("torchvision",),
    inputs=("rows", "row_scores"),
    constants=attrs(iou_threshold=float),
    outputs=("kept",),
    fields=_fields,
    prologue=_prologue,
    epilogue=kept,
    source="torchvision, exported with ONNX_FALLTHROUGH",
)

BOX_SELECTION_ALIASES = (
    _TORCHVISION,
    replace(
        _TORCHVISION,
        op_type="NonMaxSuppression",
        domains=("mmcv",),
        attributes=attrs(iou_threshold=float, offset=int),
        constants=(),
        guard=_mmcv_guard,
        source="mmcv 1.x, ops/nms.py",
    ),
)


_ONE = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")


def _check(_fields: Fields, shapes: Any) -> list[str]:
    faults = [
        f"{n} has {shapes[n][0]} elements, not 1" for n in _ONE if shapes.get(n, (1,))[0] not in (1, None)
    ]
    return faults + box_faults(shapes, 4, "box")


def _corners(boxes: np.ndarray, centers: bool) -> tuple[np.ndarray, np.ndarray]:
    """Low and high corners, [n, 2] each, in the boxes' own float32: ONNX compares in that."""
    if centers:
        half = boxes[:, 2:] / np.float32(2)
        return boxes[:, :2] - half, boxes[:, :2] + half
    return np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One box after the other: the best that is left, without those that it overlaps."""
    boxes, scores = inputs["boxes"], inputs["scores"]
    most = min(int(inputs["max_output_boxes_per_class"][0]), fields["most"])
    limit, floor = inputs["iou_threshold"][0], inputs.get("score_threshold")
    rows: list[tuple[int, int, int]] = []
    for image, class_ in np.ndindex(scores.shape[:2]):
        low, high = _corners(boxes[image], bool(fields["center_point_box"]))
        area = (high - low).prod(axis=1)
        of_class = scores[image, class_]
        left = of_class == of_class if floor is None else of_class > floor[0]
        taken = 0
        while left.any() and taken < most:
            best = int(np.flatnonzero(left & (of_class == of_class[left].max()))[0])
            rows.append((image, class_, best))
            taken += 1
            sides = np.minimum(high, high[best]) - np.maximum(low, low[best])
            common = sides.prod(axis=1)
            either = area + area[best] - common
            real = (sides > 0).all(axis=1) & (common > 0) & (area > 0) & (area[best] > 0) & (either > 0)
            over = np.divide(common, either, out=np.zeros_like(common), where=real) > limit
            left &= ~(over & real)
            left[best] = False
    return {"selected": np.array(rows, np.int64).reshape(-1, 3), "count": np.array(len(rows), np.int32)}


def _inputs(
    batch: int,
    classes: int,
    boxes: int,
    *,
    most: int = NO_LIMIT,
    limit: float = 0.5,
    floor: float | None = None,
    centers: bool = False,
    ties: int = 0,
    spread: float = 4.0,
) -> Any:
    """Boxes of about unit size whose centres are normal with deviation `spread`; corners in any order.

    ties: how many different scores there are; 0: any.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        middle = rng.normal(size=(batch, boxes, 2)) * spread
        size = rng.uniform(0.2, 2.0, (batch, boxes, 2))
        sign = 1 if centers else rng.choice([-1, 1], (batch, boxes, 2))
        first, second = (middle, size) if centers else (middle - sign * size / 2, middle + sign * size / 2)
        scores = rng.random((batch, classes, boxes))
        made = {
            "boxes": np.concatenate([first, second], axis=2),
            "scores": np.floor(scores * ties) / ties if ties else scores,
            "max_output_boxes_per_class": np.array([most]),
            "iou_threshold": np.array([limit]),
        }
        return made if floor is None else made | {"score_threshold": np.array([floor])}

    return make


def _with(centers: int = 0, most: int = NO_LIMIT) -> dict[str, int]:
    return {"center_point_box": centers, "most": most}


BOX_SELECTION = OpDef(
    name="BoxSelection",
    selects="detections",
    onnx="NonMaxSuppression",
    doc="Non-maximum suppression for each class: the boxes that remain, sorted by score, and their number.",
    inputs=(
        Port("boxes", "F", 3, "[batch, boxes, 4]"),
        Port("scores", "F", 3, "[batch, classes, boxes]; a NaN is the score of no candidate"),
        Port("max_output_boxes_per_class", "N", 1, "[1]: boxes of each class and image, at most"),
        Port("iou_threshold", "F", 1, "[1]: intersection over union above which two boxes overlap"),
        Port("score_threshold", "F", 1, "[1]: scores of candidates are above", optional=True),
    ),
    outputs=SELECTED,
    fields=(
        flag(
            "center_point_box", "0: two opposite corners [y, x, y, x]; 1: [x centre, y centre, width, height]"
        ),
        Field(
            "most", Kind.INT, "a bound of max_output_boxes_per_class, for memory", default=NO_LIMIT, minimum=0
        ),
    ),
    shape=selected_shape,
    bounds=selected_bounds,
    check=_check,
    reference=_reference,
    expand=expand,
    aliases=BOX_SELECTION_ALIASES,
    cases=(
        Case("one_of_each", _with(), _inputs(1, 1, 1)),
        Case("few", _with(), _inputs(1, 1, 40)),
        Case("classes", _with(), _inputs(1, 5, 33, floor=0.3)),
        Case("batch", _with(), _inputs(3, 2, 70, limit=0.3)),
        Case("centres", _with(1), _inputs(2, 3, 65, centers=True)),
        Case("limited", _with(0, 5), _inputs(2, 3, 130, most=5)),
        Case("limit_from_the_input_alone", _with(), _inputs(2, 3, 130, most=7)),
        Case("none_wanted", _with(0, 3), _inputs(1, 2, 20, most=0)),
        Case("below_none", _with(), _inputs(1, 2, 20, most=-2)),
        Case("none_above", _with(), _inputs(1, 2, 50, floor=1.5)),
        Case("all_apart", _with(), _inputs(1, 2, 100, spread=1e4)),
        Case("equal_scores", _with(), _inputs(2, 2, 200, ties=4)),
        Case("one_cluster", _with(), _inputs(1, 1, 300, limit=0.1, spread=0.1, floor=0.2, ties=90)),
        Case("more_than_a_word", _with(), _inputs(1, 2, 257, limit=0.2)),
        Case("many_classes", _with(0, 20), _inputs(2, 150, 300, most=20, floor=0.6, spread=6.0)),
        Case("no_boxes", _with(), _inputs(2, 3, 0)),
        Case("no_images", _with(), _inputs(0, 3, 5)),
        Case("ten_thousand", _with(), _inputs(1, 1, 10_000, spread=12.0), large=True),
        Case("more_than_a_stripe", _with(), _inputs(1, 1, 17_000, spread=12.0, ties=700), large=True),
        Case(
            "detector",
            _with(1, 100),
            _inputs(1, 80, 8400, most=100, floor=0.9, centers=True, spread=40.0),
            large=True,
        ),
    ),
    workspace=True,
)

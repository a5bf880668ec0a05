"""Defines shapes, sizes and faults of non-maximum suppression for a batch of images with classes, whatever its boxes are.

Forms of other tools have one image and one class, and give back which boxes are kept: these are brought there and back.
"""

from __future__ import annotations

from typing import Any

from trtsmith.importers.builder import Value
from trtsmith.importers.dims import smaller
from trtsmith.importers.opdef import AliasedNode, Fields, Port, Shapes
from trtsmith.importers.ops._shared import size_faults, size_of

NO_LIMIT = 2**31 - 1

SELECTED = (
    Port("selected", "N", 2, "[count, 3]: image, class and box"),
    Port("count", "S", 0, "number of boxes that are left", size=True),
)


def selected_shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"selected": (*shapes["count"], 3), "count": ()}


def selected_bounds(fields: Fields, shapes: Shapes) -> dict[str, Any]:
    batch, classes, boxes = shapes["scores"]
    return {"count": batch * classes * smaller(boxes, fields["most"])}


def box_faults(shapes: Any, numbers: int, kind: str) -> list[str]:
    """Lists the faults of the inputs' sizes. numbers: of a box, which messages call `kind`."""
    found = size_of(shapes, "boxes", 2)
    faults = [] if found in (numbers, None) else [f"boxes[2] = {found}, but a {kind} has {numbers} numbers"]
    images, boxes = (size_of(shapes, "scores", axis) for axis in (0, 2))
    return faults + size_faults(shapes, ("boxes", 0, images, "scores[0]"), ("boxes", 1, boxes, "scores[2]"))


def one_image(rows: Value, scores: Value) -> dict[str, Value]:
    """Takes `rows` [boxes, numbers] as boxes of one image, and `scores` [boxes] as those of its one class."""
    g = rows.builder
    return {
        "boxes": g.Reshape(rows, [1, g.Shape(rows)]),
        "scores": g.Reshape(scores, [1, 1, g.Shape(scores)]),
    }


def kept(node: AliasedNode) -> dict[str, Value]:
    """Tells which boxes of the one image are selected."""
    return {"kept": node.builder().Gather("selected", 2, axis=1)}

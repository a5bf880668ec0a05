"""Expands the selection of rotated boxes into operators of ONNX."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.selection import _rotated_share_onnx as rotated_share
from trtsmith.importers.ops.selection import _selection_loop_onnx as loop


def expand(expansion: Expansion) -> str:
    fields = expansion.fields
    limits = _LIMITS.format(
        score=_number(fields["score_threshold"]), overlap=_number(fields["iou_threshold"])
    )
    numbers = (f"kept_{name}" for name in ("x", "y", "width", "height", "angle"))
    prepared = rotated_share.prepare(*numbers, clockwise=bool(fields["clockwise"]), suffix="_column")
    best = rotated_share.share("share", lambda name: f"Gather <axis = 0> ({name}_list, place)")
    rows = "\n".join(  # in the Loop, the boxes of an image are a row
        f"r_{part}_list = Reshape (r_{part}_column, minus_one)\n"
        f"r_{part} = Transpose <perm = [0, 2, 1]> (r_{part}_column)"
        for part in rotated_share.PARTS
    )
    return "\n".join(
        (
            loop.CONSTANTS.format(most=fields["most"]) + limits,
            loop.WITHOUT_OTHERS,
            _NUMBERS,
            rotated_share.CONSTANTS,
            prepared,
            rows,
            loop.PLACES,
            _STEPS,
            loop.selection_loop(best + _OVER, "r_lowest"),
            loop.ROWS,
        )
    )


def _number(value: float) -> str:
    """A float32 in ONNX text, to the last digit."""
    return format(float(np.float32(value)), ".17e")


_LIMITS = """four = Constant <value = int64[1] {{4}}> ()
score_threshold = Constant <value = float {{{score}}}> ()
iou_threshold = Constant <value = float {{{overlap}}}> ()
candidates = Greater (scores, score_threshold)"""

_NUMBERS = """
kept_x = Gather <axis = 2> (kept_boxes, zero)
kept_y = Gather <axis = 2> (kept_boxes, one)
kept_width = Gather <axis = 2> (kept_boxes, two)
kept_height = Gather <axis = 2> (kept_boxes, three)
kept_angle = Gather <axis = 2> (kept_boxes, four)"""

_STEPS = """
bounds = Concat <axis = 0> (most_ever, boxes_left)
steps, which_bound = TopK <axis = 0, largest = 0> (bounds, one)
steps_scalar = Squeeze (steps)"""

_OVER = """
some = Greater (share, r_least_share)
above = Greater (share, iou_threshold)
over = And (some, above)"""

"""Models that the rule empty-if takes: torchvision's selection of boxes, after a filter by scores and of several levels."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_SELECTION = """<
    then_branch = none () => (int64[r] p) { p = Constant <value = int64[0] {}> () },
    else_branch = some () => (int64[s] q) {
        top = ReduceMax <keepdims = 0> (boxes)
        moved = Mul (classes, top)
        axis = Constant <value = int64[1] {1}> ()
        column = Unsqueeze (moved, axis)
        apart = Add (boxes, column)
        front = Constant <value = int64[1] {0}> ()
        batch = Unsqueeze (apart, front)
        both = Constant <value = int64[2] {0, 1}> ()
        wide = Unsqueeze (scores, both)
        most = Constant <value = int64[1] {100}> ()
        limit = Constant <value = float[1] {0.5}> ()
        found = NonMaxSuppression (batch, wide, most, limit)
        two = Constant <value = int64[1] {2}> ()
        at = Gather <axis = 1> (found, two)
        q = Squeeze (at, axis)
    }
>"""
_EMPTY = """sizes = Shape (boxes)
    elements = ReduceProd <keepdims = 0> (sizes)
    zero = Constant <value = int64 {0}> ()
    is_empty = Equal (elements, zero)"""


def _filtered(name: str, threshold: float, condition: str = _EMPTY) -> Example:
    """Boxes whose score is above the threshold: of a random one none is above 100."""
    return Example(
        name,
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[9, 4] b, float[9] s, float[9] c) => (int64[k] y) {{
            threshold = Constant <value = float {{{threshold}}}> ()
            above = Greater (s, threshold)
            places = NonZero (above)
            first = Constant <value = int64[1] {{0}}> ()
            kept = Squeeze (places, first)
            boxes = Gather (b, kept)  scores = Gather (s, kept)  classes = Gather (c, kept)
            {condition}
            y = If (is_empty) {_SELECTION}
        }}""",
        feeds={"b": np.random.default_rng(3).uniform(1, 9, (9, 4)).astype(np.float32)},
    )


_LEVELS = Example(
    "levels, and boxes that were clipped and laid out again",
    f"""<ir_version: 9, opset_import: ["" : 17]>
    g (float[9, 4] b, float[9] s, float[9] c) => (int64[k] y) {{
        zeros = Constant <value = float {{0}}> ()
        first = Constant <value = int64[1] {{0}}> ()
        one = Constant <value = int64[1] {{1}}> ()
        four = Constant <value = int64[1] {{4}}> ()
        pairs = Constant <value = int64[3] {{-1, 2, 2}}> ()
        above = Greater (s, zeros)
        below = Not (above)
        places1 = NonZero (above)  kept1 = Squeeze (places1, first)
        places2 = NonZero (below)  kept2 = Squeeze (places2, first)
        boxes1 = Gather (b, kept1)
        sizes1 = Shape (boxes1)
        rows1 = Slice (sizes1, first, one)
        like1 = Concat <axis = 0> (rows1, four)
        split1 = Reshape (boxes1, pairs)
        again1 = Reshape (split1, like1)
        boxes2 = Gather (b, kept2)
        scores1 = Gather (s, kept1)  scores2 = Gather (s, kept2)
        classes1 = Gather (c, kept1)  classes2 = Gather (c, kept2)
        boxes = Concat <axis = 0> (again1, boxes2)
        scores = Concat <axis = 0> (scores1, scores2)
        classes = Concat <axis = 0> (classes1, classes2)
        {_EMPTY}
        y = If (is_empty) {_SELECTION}
    }}""",
    feeds={"b": np.random.default_rng(3).uniform(1, 9, (9, 4)).astype(np.float32)},
)

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "empty-if": (
        _filtered("some boxes", -100.0),
        _filtered("no boxes", 100.0),
        _filtered(
            "by Size, the other way around",
            -100.0,
            """elements = Size (boxes)
            zero = Constant <value = int64 {0}> ()
            is_full = Greater (elements, zero)
            is_empty = Not (is_full)""",
        ),
        _LEVELS,
    ),
}

"""Models that the rule resized-maps takes or refuses: the largest element of a map that is resized to its box."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_LARGEST = """
    parts = Slice (resized, zero, end, zero)
    map = Gather <axis = 1> (parts, first)
    shape = Shape (map)  wide = Gather (shape, third)
    flat = Reshape (map, rows_of_all)
    place = ArgMax <axis = 1, keepdims = 0> (flat)
    column = Mod (place, wide)
    before = Sub (place, column)  row = Div (before, wide)
    at_row = Gather <axis = 1> (map, row)
    at_both = Gather <axis = 2> (at_row, column)
    every = Reshape (at_both, all_in_one)  score = Gather (every, diagonal)
"""


def _model(clipped: str = "Min (above, limit)", found: str = _LARGEST, resize: str = 'mode = "cubic"') -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 2, 4, 5] maps, float[n, 4] boxes, float[1, 3, height, width] image)
            => (int64[n, 2] columns, int64[n, 2] rows, float[n, 2] scores) {{
            yes = Constant <value = bool {{1}}> ()
            first = Constant <value = int64 {{0}}> ()  second = Constant <value = int64 {{1}}> ()
            third = Constant <value = int64 {{2}}> ()  fourth = Constant <value = int64 {{3}}> ()
            zero = Constant <value = int64[1] {{0}}> ()  one = Constant <value = int64[1] {{1}}> ()
            end = Constant <value = int64[1] {{9223372036854775807}}> ()
            two_ones = Constant <value = int64[2] {{2, 1}}> ()  rows_of_all = Constant <value = int64[2] {{2, -1}}> ()
            all_in_one = Constant <value = int64[1] {{-1}}> ()  diagonal = Constant <value = int64[2] {{0, 7}}> ()
            size = Shape (image)  limit_number = Gather (size, third)  limit = Cast <to = 1> (limit_number)
            low = Constant <value = float {{0}}> ()  least = Constant <value = float {{1}}> ()
            above = Max (boxes, low)  inside = {clipped}
            x0 = Gather <axis = 1> (inside, first)  y0 = Gather <axis = 1> (inside, second)
            x1 = Gather <axis = 1> (inside, third)  y1 = Gather <axis = 1> (inside, fourth)
            w_less = Sub (x1, x0)  w_least = Clip (w_less, least)  w_all = Ceil (w_least)
            h_less = Sub (y1, y0)  h_least = Clip (h_less, least)  h_all = Ceil (h_least)
            none = Constant <value = float[0, 2] {{}}> ()  nowhere = Constant <value = int64[0, 2] {{}}> ()
            dims = Shape (maps)  runs = Gather (dims, first)
            columns, rows, scores = Loop (runs, yes, nowhere, nowhere, none) <
                body = b (int64 i, bool c, int64[a, 2] p, int64[k, 2] q, float[l, 2] s)
                    => (bool d, int64[e, 2] p1, int64[f, 2] q1, float[m, 2] s1) {{
                d = Identity (c)
                both = Gather (maps, i)  w = Gather (w_all, i)  h = Gather (h_all, i)
                channels = Unsqueeze (both, one)
                h_one = Unsqueeze (h, zero)  w_one = Unsqueeze (w, zero)
                sizes_float = Concat <axis = 0> (h_one, w_one)  sizes_whole = Cast <to = 7> (sizes_float)
                sizes = Concat <axis = 0> (two_ones, sizes_whole)
                resized = Resize <coordinate_transformation_mode = "half_pixel", {resize}> (channels, , , sizes)
                {found}
                score_same = Cast <to = 1> (score)  score_row = Unsqueeze (score_same, zero)
                s_same = Cast <to = 1> (s)  s1 = Concat <axis = 0> (s_same, score_row)
                column_row = Unsqueeze (column, zero)  p1 = Concat <axis = 0> (p, column_row)
                row_row = Unsqueeze (row, zero)  q1 = Concat <axis = 0> (q, row_row)
            }}>
        }}"""


_FEEDS = {
    "maps": np.random.default_rng(3).standard_normal((4, 2, 4, 5)).astype(np.float32),
    "boxes": np.array([[1, 2, 6.5, 7], [-3, 0, 20, 1.5], [2, 3, 2, 3], [0.5, 1, 9, 20]], np.float32),
    "image": np.zeros((1, 3, 8, 9), np.float32),
}

EXAMPLES = {
    "resized-maps": (
        Example("the largest element of bicubic maps", _model(), _FEEDS),
        Example("of linear maps", _model(resize='mode = "linear"'), _FEEDS),
    )
}

_MEAN = """
    score_all = ReduceMean <keepdims = 0, axes = [1, 2, 3]> (resized)  score = Identity (score_all)
    column = Cast <to = 7> (score)  row = Identity (column)
"""

REFUSED: dict[str, tuple[str, ...]] = {
    "resized-maps": (
        _model("Identity (above)"),
        _model(found=_MEAN),
        _model(resize='mode = "cubic", exclude_outside = 1'),
    )
}

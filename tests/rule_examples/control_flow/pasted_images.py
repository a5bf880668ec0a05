"""Models that the rule pasted-images takes: masks pasted into an image, as torchvision exports them, and the like."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_BOXES = np.array(
    [
        [1, 2, 5, 6],
        [-3, -2, 2, 4],
        [6, 3, 14, 12],
        [-2, -2, 12, 10],
        [4, 4, 4, 4],
        [3, 5, 1, 3],
        [0, 0, 8, 6],
    ],
    np.int64,
)
"""x0, y0, x1, y1: inside, beyond each edge, larger than the image, of one pixel, turned round, and beyond by one pixel."""

_CUT_AND_PASTED = """
    left = Max (x0, in_zero)  above = Max (y0, in_zero)
    from_x = Sub (left, x0)  from_y = Sub (above, y0)
    x1_next = Add (x1, in_one)  y1_next = Add (y1, in_one)
    right = Min (x1_next, width)  below = Min (y1_next, height)
    to_x = Sub (right, x0)  to_y = Sub (below, y0)
    rows = Slice (flat, from_y, to_y, in_zero, in_one)
    cut = Slice (rows, from_x, to_x, in_one, in_one)
    cut_shape = Shape (cut)  cut_width = Gather (cut_shape, in_one)
    top_shape = Concat <axis = 0> (above, cut_width)  top = ConstantOfShape (top_shape)
    last_rows = Sub (height, below)
    end_shape = Concat <axis = 0> (last_rows, cut_width)  end = ConstantOfShape (end_shape)
    tall = Concat <axis = 0> (top, cut, end)
    left_shape = Concat <axis = 0> (height, left)  zeros_left = ConstantOfShape (left_shape)
    last_columns = Sub (width, right)
    right_shape = Concat <axis = 0> (height, last_columns)  zeros_right = ConstantOfShape (right_shape)
    wide = Concat <axis = 1> (zeros_left, tall, zeros_right)
    pasted = Slice (wide, in_zero, width, in_one)
"""

_FROM_BOTH_ENDS = """
    minus = Constant <value = int64[1] {-1}> ()
    inner = Slice (flat, in_one, minus, in_zero)
    most = Constant <value = int64[1] {6}> ()
    trimmed = Slice (inner, in_zero, most, in_zero)
    shape = Shape (trimmed)  length = Gather (shape, in_zero)
    narrow = Slice (trimmed, in_zero, in_one, in_one)
    count = Sub (h, in_two)  kept = Min (count, most)  kept_rows = Max (kept, in_zero)
    missing = Sub (height, kept_rows)
    end_shape = Concat <axis = 0> (missing, in_one)  end = ConstantOfShape (end_shape)
    tall = Concat <axis = 0> (narrow, end)
    others = Sub (width, in_one)
    right_shape = Concat <axis = 0> (height, others)  zeros_right = ConstantOfShape (right_shape)
    pasted = Concat <axis = 1> (tall, zeros_right)
"""


_OTHER_HALVES = 'mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"'


def _example(name: str, placing: str, resize: str = 'mode = "linear"', boxes: np.ndarray = _BOXES) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 1, 3, 4] masks, int64[n, 4] boxes, float[1, 3, height, width] image) => (float[n, 1, height, width] y) {{
            yes = Constant <value = bool {{1}}> ()
            first = Constant <value = int64 {{0}}> ()  second = Constant <value = int64 {{1}}> ()
            third = Constant <value = int64 {{2}}> ()  fourth = Constant <value = int64 {{3}}> ()
            zero = Constant <value = int64[1] {{0}}> ()  one = Constant <value = int64[1] {{1}}> ()
            two = Constant <value = int64[1] {{2}}> ()
            batched = Constant <value = int64[4] {{1, 1, 3, 4}}> ()  scalar = Constant <value = int64[1] {{-1}}> ()
            size = Shape (image)  three = Constant <value = int64[1] {{3}}> ()
            height = Gather (size, two)  width = Gather (size, three)
            none = Concat <axis = 0> (zero, height, width)
            nothing = ConstantOfShape (none)
            dims = Shape (masks)
            runs = Gather (dims, first)
            all = Loop (runs, yes, nothing) <
                body = b (int64 i, bool c, float[k, height, width] s) => (bool d, float[l, height, width] r) {{
                d = Identity (c)
                in_zero = Constant <value = int64[1] {{0}}> ()  in_one = Constant <value = int64[1] {{1}}> ()
                in_two = Constant <value = int64[1] {{2}}> ()  in_ones = Constant <value = int64[2] {{1, 1}}> ()
                channels = Gather (masks, i)  mask = Gather (channels, first)  whole = Expand (mask, batched)
                box = Gather (boxes, i)
                x0_number = Gather (box, first)  x0 = Unsqueeze (x0_number, in_zero)
                y0 = Gather (box, in_one)  x1 = Gather (box, in_two)
                y1_number = Gather (box, fourth)  y1 = Reshape (y1_number, scalar)
                w_less = Sub (x1, x0)  w_any = Add (w_less, in_one)
                w_both = Concat <axis = 0> (w_any, in_one)  w_number = ReduceMax <keepdims = 0> (w_both)
                h_less = Sub (y1, y0)  h_any = Add (h_less, in_one)  h_both = Concat <axis = 0> (h_any, in_one)
                h_number = ReduceMax <keepdims = 0> (h_both)  h = Unsqueeze (h_number, in_zero)
                w = Unsqueeze (w_number, in_zero)
                both_float = Concat <axis = 0> (h, w)  both = Cast <to = 7> (both_float)
                sizes = Concat <axis = 0> (in_ones, both)
                resized = Resize <{resize}> (whole, , , sizes)
                one_channel = Gather (resized, first)
                flat = Gather (one_channel, first)
                {placing}
                row = Unsqueeze (pasted, in_zero)
                r = Concat <axis = 0> (s, row)
            }}>
            y = Unsqueeze (all, one)
        }}""",
        feeds={
            "masks": np.random.default_rng(2).standard_normal((len(boxes), 1, 3, 4)).astype(np.float32),
            "boxes": boxes,
            "image": np.zeros((1, 3, 7, 9), np.float32),
        },
    )


EXAMPLES = {
    "pasted-images": (
        _example("cut at the edges of the image, with zeros around", _CUT_AND_PASTED),
        _example("cubic", _CUT_AND_PASTED, 'mode = "cubic"'),
        _example("the other way of half pixels", _CUT_AND_PASTED, _OTHER_HALVES),
        _example("slices that count from the end", _FROM_BOTH_ENDS),
        _example("no boxes", _CUT_AND_PASTED, boxes=_BOXES[:0]),
    )
}

REFUSED: dict[str, tuple[str, ...]] = {}

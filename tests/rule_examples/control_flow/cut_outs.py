"""Models that the rule cut-outs takes: loops over boxes as tf2onnx writes them."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_BOXES = np.array(
    [[0.0, 0.0, 1.0, 1.0], [0.2, 0.7, 0.9, 0.1], [-0.3, 0.25, 0.5, 1.2], [0.5, 0.5, 0.5, 0.5]], np.float32
)

_CONSTANTS = """
    none = Constant <value = int64[1] {0}> ()  one = Constant <value = int64[1] {1}> ()
    two = Constant <value = int64[1] {2}> ()  four = Constant <value = int64[1] {4}> ()
    first = Constant <value = int32[1] {0}> ()  next = Constant <value = int32[1] {1}> ()
    zeros = Constant <value = float[2] {0, 0}> ()  ones = Constant <value = float[2] {1, 1}> ()
"""


def _example(
    name: str, size: tuple[int, int], attributes: str = "", *, last: bool, height: int = 5
) -> Example:
    """last: images with the channels last."""
    rows, columns = size
    image, made, turned, back = (
        "H, W, 3",
        f"{rows}, {columns}, 3",
        "Transpose <perm = [0, 3, 1, 2]> (image)",
        "Transpose <perm = [0, 2, 3, 1]> (resized)",
    )
    if not last:
        image, made, turned, back = (
            "3, H, W",
            f"3, {rows}, {columns}",
            "Identity (image)",
            "Identity (resized)",
        )
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[N, {image}] x, float[R, 4] boxes, int32[R] ids) => (float[R, {made}] y)
        <int64[2] size = {{{rows}, {columns}}}> {{
            count = Size (ids)  yes = Constant <value = bool {{1}}> ()
            y = Loop (count, yes) <body = b (int64 i, bool c) => (bool d, float[{made}] cut) {{
                {_CONSTANTS}
                d = Identity (c)  to = Add (i, one)  from = Reshape (i, one)
                row = Slice (boxes, from, to, none)  box = Reshape (row, four)
                end = Slice (box, two, four)  begin = Slice (box, none, two)
                low = Concat <axis = 0> (zeros, begin)  high = Concat <axis = 0> (ones, end)
                roi = Concat <axis = 0> (low, high)
                at = Slice (ids, from, to)  after = Add (at, next)
                image = Slice (x, at, after, first)  turned = {turned}
                shape = Shape (turned)  same = Slice (shape, none, two)  sizes = Concat <axis = 0> (same, size)
                resized = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize" {attributes}>
                    (turned, roi, , sizes)
                back = {back}  cut = Squeeze (back, none)
            }}>
        }}""",
        feeds={
            "x": np.random.default_rng(5)
            .standard_normal((2, *((height, 7, 3) if last else (3, height, 7))))
            .astype(np.float32),
            "boxes": _BOXES,
            "ids": np.array([1, 0, 1, 0], np.int32),
        },
        rtol=1e-4,
        atol=1e-5,
    )


EXAMPLES = {
    "cut-outs": (
        _example("as tf2onnx", (4, 3), ", extrapolation_value = -2.5", last=True),
        _example("channels first, middles of boxes", (1, 2), last=False),
        # 13 steps of 7 / 13 are more than 7 in float32: the last row of a whole image is inside all the same.
        _example("to the border", (14, 2), last=True, height=8),
    )
}

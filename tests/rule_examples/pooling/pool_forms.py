"""Models that the rule pooling takes, and one that it refuses."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, signature: str, body: str, opset: int = 19, reference: bool = False) -> Example:
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    return Example(name, text, reference=reference)


_EXAMPLES = (
    _example(
        "max, dilated, padded, ceil",
        "(float[2, 3, 11, 10] x) => (float[2, 3, 5, 4] y)",
        """y = MaxPool <kernel_shape = [3, 2], dilations = [2, 3], strides = [2, 3], pads = [1, 0, 0, 1],
            ceil_mode = 1> (x)""",
    ),
    _example(
        "max, opset 10",
        "(float[1, 2, 9] x) => (float[1, 2, 7] y)",
        "y = MaxPool <kernel_shape = [3], dilations = [2], pads = [1, 1]> (x)",
        opset=10,
    ),
    _example(
        "max, same, strided",
        "(float[1, 2, 9, 8] x) => (float[1, 2, 5, 4] y)",
        'y = MaxPool <kernel_shape = [3, 3], dilations = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER"> (x)',
        reference=True,  # onnxruntime leaves the dilations out of auto_pad
    ),
    _example(
        "max, uint8",
        "(uint8[1, 2, 7, 8] x) => (uint8[1, 2, 4, 4] y)",
        "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)",
    ),
    _example(
        "max, int8, dilated",
        "(int8[1, 2, 7, 8] x) => (int8[1, 2, 5, 6] y)",
        "y = MaxPool <kernel_shape = [3, 3], dilations = [2, 2], pads = [1, 1, 1, 1]> (x)",
    ),
    _example(
        "average, dilated, ceil, without padding",
        "(float[1, 2, 11, 10] x) => (float[1, 2, 5, 4] y)",
        """y = AveragePool <kernel_shape = [3, 2], dilations = [2, 3], strides = [2, 3], pads = [1, 0, 0, 1],
            ceil_mode = 1> (x)""",
    ),
    _example(
        "average, dilated, ceil, with padding",
        "(float[1, 2, 11, 10, 4] x) => (float[1, 2, 5, 4, 2] y)",
        """y = AveragePool <kernel_shape = [3, 2, 2], dilations = [2, 3, 2], strides = [2, 3, 1],
            pads = [1, 0, 0, 0, 1, 0], ceil_mode = 1, count_include_pad = 1> (x)""",
    ),
    _example(
        "max, ceil, a window beyond",
        "(float[1, 2, 4, 6] x) => (float[1, 2, 2, 2] y)",
        "y = MaxPool <kernel_shape = [1, 2], strides = [2, 3], pads = [0, 1, 0, 1], ceil_mode = 1> (x)",
    ),
    _example(
        "average, ceil, a window beyond, without padding",
        "(float[1, 2, 5, 8] x) => (float[1, 2, 2, 4] y)",
        """y = AveragePool <kernel_shape = [3, 3], strides = [3, 2], pads = [1, 1, 1, 1], ceil_mode = 1> (x)""",
    ),
    _example(
        "average, ceil, a window beyond, with padding",
        "(float[1, 2, 5, 8] x) => (float[1, 2, 2, 4] y)",
        """y = AveragePool <kernel_shape = [3, 3], strides = [3, 3], pads = [1, 1, 1, 1], ceil_mode = 1,
            count_include_pad = 1> (x)""",
    ),
    _example(
        "average, ceil, a window cut short, with padding",
        "(float[1, 8, 4, 4] x) => (float[1, 8, 3, 4] y)",
        """y = AveragePool <kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1], ceil_mode = 1,
            count_include_pad = 1> (x)""",
    ),
    _example(
        "lp, p = 3",
        "(float[1, 2, 7, 8] x) => (float[1, 2, 4, 4] y)",
        "y = LpPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0], p = 3> (x)",
        opset=18,
    ),
    _example(
        "lp, opset 9",
        "(float[1, 2, 7, 8] x) => (float[1, 2, 3, 4] y)",
        "y = LpPool <kernel_shape = [3, 2], strides = [2, 2], p = 4> (x)",
        opset=9,
    ),
    _example(
        "lp, 1-D, same",
        "(float[1, 2, 9] x) => (float[1, 2, 9] y)",
        'y = LpPool <kernel_shape = [3], auto_pad = "SAME_UPPER", p = 2> (x)',
        opset=18,
    ),
)


EXAMPLES = {"pooling": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "pooling": (
        """<ir_version: 9, opset_import: ["" : 19]>
        g (float[1, 2, 7, 8] x) => (float[1, 2, 5, 7] y) { y = LpPool <kernel_shape = [3, 2], p = 0> (x) }""",
    ),
}

"""Models that the rule max-pool-indices takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "ties, padded",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[2, 3, 7, 6] x) => (float[2, 3, 4, 3] y, int64[2, 3, 4, 3] i) {
            r = Round (x)
            y, i = MaxPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0]> (r)
        }""",
    ),
    Example(
        "dilated, column-major, ceil",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[1, 2, 8, 9] x) => (float[1, 2, 2, 4] y, int64[1, 2, 2, 4] i) {
            y, i = MaxPool <kernel_shape = [3, 2], strides = [3, 2], dilations = [2, 2], storage_order = 1,
                ceil_mode = 1> (x)
        }""",
    ),
    Example(
        "opset 9",
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[2, 2, 8, 9] x) => (float[2, 2, 4, 5] y, int64[2, 2, 4, 5] i) {
            y, i = MaxPool <kernel_shape = [2, 3], strides = [2, 2], pads = [0, 1, 0, 1]> (x)
        }""",
    ),
    Example(
        "unused",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[1, 2, 8, 9] x) => (float[1, 2, 4, 4] y) {
            y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        }""",
    ),
    Example(
        "3-D of uint8, indices only",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (uint8[1, 2, 4, 4, 5] x) => (int64[1, 2, 2, 2, 4] i) {
            y, i = MaxPool <kernel_shape = [2, 2, 2], strides = [2, 2, 1]> (x)
        }""",
    ),
)


EXAMPLES = {"max-pool-indices": _EXAMPLES}

"""Models that the rule col2im takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "strides and dilations",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2, 12, 12] x) => (float[2, 2, 8, 9] y) {
            image = Constant <value = int64[2] {8, 9}> ()
            block = Constant <value = int64[2] {2, 3}> ()
            y = Col2Im <strides = [2, 2], dilations = [3, 1], pads = [1, 0, 0, 1]> (x, image, block)
        }""",
    ),
    Example(
        "3-D",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[1, 8, 36] x) => (float[1, 1, 4, 5, 4] y) {
            image = Constant <value = int64[3] {4, 5, 4}> ()
            block = Constant <value = int64[3] {2, 2, 2}> ()
            y = Col2Im (x, image, block)
        }""",
    ),
)


EXAMPLES = {"col2im": _EXAMPLES}

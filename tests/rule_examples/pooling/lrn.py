"""Models that the rule lrn takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "even",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[7, 7, 3, 4] x) => (float[7, 7, 3, 4] y) {
            y = LRN <size = 4, alpha = 0.3, beta = 0.6, bias = 1.5> (x)
        }""",
        reference=True,  # onnxruntime takes odd windows only; the reference needs as many images as channels
    ),
    Example(
        "large",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 20, 3, 2] x) => (float[2, 20, 3, 2] y) { y = LRN <size = 17, alpha = 0.3> (x) }""",
    ),
)


EXAMPLES = {"lrn": _EXAMPLES}

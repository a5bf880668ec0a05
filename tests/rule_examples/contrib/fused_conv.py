"""Models that the rule contrib-conv takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "sum and activation",
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[1, 4, 9, 7] x, float[6, 2, 3, 3] w, float[6] b, float[1, 6, 5, 4] z) => (float[1, 6, 5, 4] y) {
            y = com.microsoft.FusedConv <group = 2, pads = [1, 1, 1, 1], strides = [2, 2], activation = "Relu">
                (x, w, b, z)
        }""",
        rtol=1e-4,
        atol=1e-4,
    ),
    Example(
        "parameters",
        """<ir_version: 8, opset_import: ["" : 11, "com.microsoft" : 1]>
        g (float[1, 4, 9, 7] x, float[6, 4, 3, 3] w) => (float[1, 6, 7, 5] y) {
            y = com.microsoft.FusedConv <activation = "Clip", activation_params = [-0.5, 1.5]> (x, w)
        }""",
        rtol=1e-4,
        atol=1e-4,
    ),
)


EXAMPLES = {"contrib-conv": _EXAMPLES}

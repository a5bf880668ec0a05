"""Models that the rule contrib-arrays takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "expand",
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[3, 4] x) => (float[3, 1, 4] z) <int32 axis = {-2}> {
            y = com.microsoft.ExpandDims (x, axis)  z = Neg (y)
        }""",
    ),
    Example(
        "range",
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[3] x) => (float[3] y) <float start = {-1.0}, float end = {1.5}> {
            r = com.microsoft.Range (start, end)  y = Add (x, r)
        }""",
    ),
)


EXAMPLES = {"contrib-arrays": _EXAMPLES}

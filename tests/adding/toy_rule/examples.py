"""Models that the toy rule takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "absolute": (
        Example(
            "of a sum",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[2, n] x, float[n] z) => (float[2, n] y) {
                s = Add (x, z)
                y = Abs (s)
            }""",
        ),
    ),
}

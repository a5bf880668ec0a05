"""Models that the rule training-dropout takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "training-dropout": (
        Example(
            "dropout",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[4, 5] x) => (float[4, 5] y, bool[4, 5] kept) <float ratio = {0}, bool training = {1}> {
                y, kept = Dropout (x, ratio, training)
            }""",
        ),
        Example(
            "seeded",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (float[4, 5] x) => (float[4, 5] y) <float ratio = {0}, bool training = {1}> {
                y = Dropout <seed = 7> (x, ratio, training)
            }""",
        ),
    ),
}

"""Models that the rule space-to-depth takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "space-to-depth": (
        Example(
            "crd",
            """<ir_version: 12, opset_import: ["" : 28]>
            g (float[2, 3, 4, 6] x) => (float[2, 12, 2, 3] y) { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }""",
            reference=True,
        ),
    ),
}

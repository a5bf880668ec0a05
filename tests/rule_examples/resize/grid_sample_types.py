"""Models that the rule grid-sample-types takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "a narrower input",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float16[1, 2, 5, 6] x, float[1, 3, 4, 2] grid) => (float16[1, 2, 3, 4] y) {
            y = GridSample <mode = "linear"> (x, grid)
        }""",
        reference=True,
        rtol=1e-3,
        atol=2e-3,
    ),
)


EXAMPLES = {"grid-sample-types": _EXAMPLES}

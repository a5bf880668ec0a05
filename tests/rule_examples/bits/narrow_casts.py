"""Models that the rule narrow-casts takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "there and back",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 4] x) => (float[3, 4] y) <float low = {0}, float high = {255}, float hundred = {100}> {
            big = Mul (x, hundred)  inside = Clip (big, low, high)  rounded = Round (inside)
            narrow = Cast <to = 2> (rounded)  y = Cast <to = 1> (narrow)
        }""",
    ),
)


EXAMPLES = {"narrow-casts": _EXAMPLES}

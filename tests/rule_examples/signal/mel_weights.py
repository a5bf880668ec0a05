"""Models that the rule mel-weights takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "constants",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 257] x) => (float[2, 40] y)
        <int64 bins = {40}, int64 n = {512}, int64 rate = {16000}, float low = {20.0}, float high = {7600.0}> {
            m = MelWeightMatrix (bins, n, rate, low, high)
            y = MatMul (x, m)
        }""",
        rtol=1e-4,
    ),
)


EXAMPLES = {"mel-weights": _EXAMPLES}

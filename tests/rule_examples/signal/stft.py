"""Models that the rule stft takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "computed window",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 37, 1] x, float[8] v) => (float[2, 10, 5, 2] y) {
            step = Constant <value = int64 {3}> ()
            w = Abs (v)
            y = STFT (x, step, w)
        }""",
        rtol=1e-4,
        atol=1e-5,
    ),
    Example(
        "complex signal",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 20, 2] x) => (float[2, 4, 8, 2] y) {
            step = Constant <value = int64 {4}> ()
            size = Constant <value = int64 {8}> ()
            y = STFT <onesided = 0> (x, step, , size)
        }""",
        rtol=1e-4,
        atol=1e-5,
    ),
)


EXAMPLES = {"stft": _EXAMPLES}

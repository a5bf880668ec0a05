"""Models that the rule half-range takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "float16",
        """<ir_version: 10, opset_import: ["" : 27]>
        g (float16[6] x) => (float16[6] y) {
            floats = Constant <value = float[3] {7.0, -3.5, -2.0}> ()
            ends = Cast <to = 10> (floats)
            from, to, step = Split <num_outputs = 3> (ends)
            none = Constant <value = int64[0] {}> ()
            start = Reshape (from, none)
            limit = Reshape (to, none)
            delta = Reshape (step, none)
            r = Range (start, limit, delta)
            y = Mul (x, r)
        }""",
        rtol=1e-3,
        reference=True,
    ),
)


EXAMPLES = {"half-range": _EXAMPLES}

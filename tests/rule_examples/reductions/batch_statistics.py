"""Models that the rule batch-statistics takes."""

from __future__ import annotations

from tests.rule_examples.example import Example

_POSITIVE = "variance = Abs (v)"


_EXAMPLES = (
    Example(
        "training",
        f"""<ir_version: 8, opset_import: ["" : 15]>
        g (float[2, 3, 4, 5] x, float[3] s, float[3] b, float[3] m, float[3] v)
        => (float[2, 3, 4, 5] y, float[3] mean, float[3] var) {{
            {_POSITIVE}
            y, mean, var = BatchNormalization <training_mode = 1, momentum = 0.7> (x, s, b, m, variance)
        }}""",
        reference=True,
    ),
    Example(
        "element by element",
        f"""<ir_version: 8, opset_import: ["" : 8]>
        g (float[2, 3, 4] x, float[3, 4] s, float[3, 4] b, float[3, 4] m, float[3, 4] v) => (float[2, 3, 4] y) {{
            {_POSITIVE}
            y = BatchNormalization <spatial = 0> (x, s, b, m, variance)
        }}""",
    ),
)


EXAMPLES = {"batch-statistics": _EXAMPLES}

"""Models that the rule dynamic-quantize-lstm takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(4)


def _listed(*shape: int) -> str:
    return ", ".join(str(value) for value in _RNG.integers(-100, 101, shape).reshape(-1))


_EXAMPLES = (
    Example(
        "two directions",
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[5, 2, 3] x) => (float[5, 2, 2, 4] y, float[2, 2, 4] h)
        <int8[2, 3, 16] w = {{{_listed(2, 3, 16)}}}, int8[2, 4, 16] r = {{{_listed(2, 4, 16)}}},
         float[2] sw = {{0.01, 0.005}}, int8[2] zw = {{3, -5}}, float[2] sr = {{0.004, 0.006}}, int8[2] zr = {{0, 9}}> {{
            y, h = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "bidirectional"> (
                x, w, r, , , , , , sw, zw, sr, zr)
        }}""",
        rtol=0.02,
        atol=0.02,
    ),
)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "dynamic-quantize-lstm": _EXAMPLES,
}

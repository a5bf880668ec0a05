"""Models that the rule qembed-layer-normalization takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(6)


def _listed(*shape: int) -> str:
    return ", ".join(str(value) for value in _RNG.integers(0, 256, shape).reshape(-1))


_EXAMPLES = (
    Example(
        "with segments and a mask",
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (int32[2, 3] ids, int32[2, 3] kinds, int32[2, 3] mask) => (float[2, 3, 4] y, int32[2] index)
        <uint8[6, 4] w = {{{_listed(6, 4)}}}, uint8[5, 4] p = {{{_listed(5, 4)}}}, uint8[2, 4] s = {{{_listed(2, 4)}}},
         uint8[4] g0 = {{{_listed(4)}}}, uint8[4] b = {{{_listed(4)}}},
         float a = {{0.02}}, uint8 z = {{117}}, uint8 zero = {{0}}> {{
            y, index = com.microsoft.QEmbedLayerNormalization
                (ids, kinds, w, p, s, g0, b, mask, a, a, a, a, a, z, z, zero, z, z)
        }}""",
        feeds={
            "ids": np.array([[3, 0, 5], [1, 1, 4]], np.int32),
            "kinds": np.array([[0, 1, 1], [0, 0, 1]], np.int32),
            "mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        },
        rtol=1e-4,
        atol=1e-5,
    ),
)


EXAMPLES = {"qembed-layer-normalization": _EXAMPLES}

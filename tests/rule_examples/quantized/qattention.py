"""Models that the rule qattention takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(2)


def _listed(array: np.ndarray) -> str:
    return ", ".join(str(value) for value in array.reshape(-1).tolist())


_TYPES = f"""int8[6, 24] w = {{{_listed(_RNG.integers(-60, 61, (6, 24)))}}},
         float[24] b = {{{_listed(_RNG.choice([-0.5, 0.25, 0.75], 24))}}}, float sx = {{0.02}}, float sw = {{0.03}},
         uint8 zx = {{121}}, int8 zw = {{3}}"""


def _example(name: str, attributes: str, more: str, inputs: str = "", builds: bool = True) -> Example:
    feeds = {"x": _RNG.integers(0, 256, (2, 3, 6)).astype(np.uint8)}
    if inputs:
        feeds["m"] = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (uint8[2, 3, 6] x{inputs}) => (float[2, 3, 8] y)
        <{_TYPES}> {{
            y = com.microsoft.QAttention <num_heads = 2{attributes}> (x, w, b, sx, sw, {more}, zx, zw)
        }}""",
        feeds=feeds,
        rtol=1e-4,
        atol=1e-5,
        builds=builds,
        why="" if builds else "MultiHeadAttention with a mask is for another rule",
    )


_EXAMPLES = (
    _example("plain", "", '""'),
    _example("a mask of keys, ahead hidden", ", unidirectional = 1", "m", ", int32[2, 3] m", builds=False),
)


EXAMPLES = {"qattention": _EXAMPLES}

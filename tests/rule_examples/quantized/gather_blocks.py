"""Models that the rule gather-blocks takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(13)


def _listed(array: np.ndarray) -> str:
    return ", ".join(str(value) for value in array.reshape(-1).tolist())


def _example(name: str, opset: int, bits: int, more: str = "", zeros: str = "") -> Example:
    table = _RNG.integers(0, 256, (5, 4 * bits), np.uint8)
    scales = _RNG.choice([0.25, -0.5, 0.125], (5, 2))
    return Example(
        name,
        f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (int64[2, 3] i) => (float[2, 3, 32] y)
        <uint8[5, {4 * bits}] w = {{{_listed(table)}}}, float[5, 2] s = {{{_listed(scales)}}}{zeros}> {{
            y = com.microsoft.GatherBlockQuantized
                <bits = {bits}, block_size = 16, quantize_axis = 1, gather_axis = 0> (w, i, s{more})
        }}""",
        feeds={"i": np.array([[0, 4, -1], [3, 3, 2]])},
    )


_EXAMPLES = (
    _example("4 bits", 21, 4),
    _example("4 bits, zero points", 17, 4, ", z", ", uint8[5, 1] z = {18, 200, 7, 255, 64}"),
    _example("8 bits", 21, 8),
)


EXAMPLES = {"gather-blocks": _EXAMPLES}

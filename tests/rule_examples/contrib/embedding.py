"""Models that the rule contrib-embedding takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_IDS = {
    "ids": np.array([[3, 0, 9, 4], [1, 1, 0, 5]], np.int32),
    "kinds": np.array([[0, 0, 1, 1], [0, 1, 1, 1]], np.int32),
    "places": np.array([[3, 2, 1, 0], [0, 1, 4, 5]], np.int32),
    "mask": np.array([[1, 1, 1, 0], [1, 0, 0, 0]], np.int32),
}


def _example(name: str, inputs: str, last: str, outputs: str, results: str, opset: int = 17) -> Example:
    given = {key: value for key, value in _IDS.items() if f" {key}" in inputs}
    types = ", ".join(f"int32[2, 4] {key}" for key in given)
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g ({types}, float[10, 8] words, float[6, 8] p, float[2, 8] s, float[8] gamma, float[8] beta) => ({outputs}) {{
            {results} = com.microsoft.EmbedLayerNormalization <epsilon = 0.01> ({last})
        }}""",
        feeds=given,
        rtol=1e-4,
        atol=1e-5,
    )


_EXAMPLES = (
    _example(
        "words, positions, segments, mask",
        " ids kinds mask",
        "ids, kinds, words, p, s, gamma, beta, mask",
        "float[2, 4, 8] y, int32[2] index",
        "y, index",
    ),
    _example(
        "positions given, the sum used",
        " ids places",
        "ids, , words, p, , gamma, beta, , places",
        "float[2, 4, 8] y, float[2, 4, 8] sum",
        "y, , sum",
        12,
    ),
)


EXAMPLES = {"contrib-embedding": _EXAMPLES}

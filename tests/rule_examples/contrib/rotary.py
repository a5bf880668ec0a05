"""Models that the rule contrib-rotary takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example
from trtsmith.converter.rewrite.rules.contrib.attention import OLDEST


def _example(
    name: str, attributes: str, shape: str, places: np.ndarray, half: int = 4, opset: int = 17
) -> Example:
    dims = ", ".join(map(str, places.shape))
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[{shape}] x, int64[{dims}] p, float[10, {half}] c, float[10, {half}] s) => (float[{shape}] y) {{
            y = com.microsoft.RotaryEmbedding {attributes} (x, p, c, s)
        }}""",
        feeds={"p": places},
        rtol=1e-4,
    )


_EXAMPLES = (
    _example("first position", "", "2, 2, 3, 8", np.array([4])),
    _example("first position, interleaved", "<interleaved = 1>", "2, 2, 3, 8", np.array([2]), opset=OLDEST),
    _example("number of heads unknown", "", "2, 3, 16", np.array([[3, 0, 9], [1, 1, 2]])),
    _example(
        "part of each head",
        "<num_heads = 2, rotary_embedding_dim = 4, interleaved = 1>",
        "2, 3, 16",
        np.array([5]),
        2,
        13,
    ),
)


EXAMPLES = {"contrib-rotary": _EXAMPLES}

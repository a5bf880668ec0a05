"""Models that the rule contrib-attention takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(
    name: str, attributes: str, inputs: str, call: str, outputs: str = "float[2, 3, 8] y",
    results: str = "y", feeds: dict[str, np.ndarray] | None = None, opset: int = 17,
) -> Example:  # fmt: skip
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[2, 3, 6] x, float[6, 24] w{inputs}) => ({outputs}) {{
            {results} = com.microsoft.Attention <num_heads = 2{attributes}> (x, w{call})
        }}""",
        feeds=feeds,
        scale=0.2,
        rtol=1e-4,
        atol=1e-5,
    )


def _mask(*values: object) -> dict[str, np.ndarray]:
    return {"m": np.array(values, np.int32)}


_PAST = "float[2, 2, 2, 4, 4] p"


_PRESENT = "float[2, 3, 8] y, float[2, 2, 2, 7, 4] now"


_EXAMPLES = (
    _example("plain", "", ", float[24] b", ", b"),
    _example("a scale, ahead hidden", ", scale = 0.3, unidirectional = 1", ", float[24] b", ", b", opset=11),
    _example("other widths", ", qkv_hidden_sizes = [6, 6, 12]", ", float[24] b", ", b", "float[2, 3, 12] y"),
    _example("mask of keys", "", ", float[24] b, int32[2, 3] m", ", b, m", feeds=_mask([1, 1, 0], [1, 0, 1])),
    _example(
        "mask of queries and keys",
        ", mask_filter_value = -2.5",
        ", float[24] b, int32[2, 3, 3] m",
        ", b, m",
        feeds=_mask([[1, 1, 0], [1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 1, 1], [1, 0, 0]]),
    ),
    _example(
        "mask and a sum",
        "",
        ", float[24] b, int32[2, 3] m, float[1, 2, 3, 3] a",
        ", b, m, , a",
        feeds=_mask([1, 1, 0], [0, 1, 1]),
    ),
    _example("lengths", ", unidirectional = 1", ", float[24] b, int32[2] m", ", b, m", feeds=_mask(2, 3)),
    _example("ends and starts", "", ", float[24] b, int32[4] m", ", b, m", feeds=_mask(2, 3, 1, 0)),
    _example(
        "past and present",
        ", unidirectional = 1",
        f", float[24] b, int32[2, 7] m, {_PAST}",
        ", b, m, p",
        _PRESENT,
        "y, now",
        _mask([1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 1, 1]),
    ),
    _example("past without a mask", "", f", float[24] b, {_PAST}", ", b, , p", _PRESENT, "y, now", opset=12),
)


EXAMPLES = {"contrib-attention": _EXAMPLES}

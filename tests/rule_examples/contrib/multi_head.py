"""Models that the rule contrib-multi-head takes."""

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
        g (float[2, 3, 8] q{inputs}) => ({outputs}) {{
            {results} = com.microsoft.MultiHeadAttention <num_heads = 2{attributes}> (q{call})
        }}""",
        feeds=feeds,
        scale=0.4,
        rtol=1e-4,
        atol=1e-5,
    )


def _mask(*values: object) -> dict[str, np.ndarray]:
    return {"m": np.array(values, np.int32)}


_KV = ", float[2, 5, 8] k, float[2, 5, 8] v"


_OWN = ", float[2, 3, 8] k, float[2, 3, 8] v"


_PAST = "float[2, 2, 4, 4] pk, float[2, 2, 4, 4] pv"


_PRESENT = "float[2, 3, 8] y, float[2, 2, 7, 4] nk, float[2, 2, 7, 4] nv"


_EXAMPLES = (
    _example("bias", "", f"{_KV}, float[24] b", ", k, v, b"),
    _example(
        "wider values",
        "",
        ", float[2, 5, 8] k, float[2, 5, 12] v, float[28] b",
        ", k, v, b",
        "float[2, 3, 12] y",
    ),
    _example("ahead hidden", ", unidirectional = 1, scale = 0.3", _OWN, ", k, v", opset=11),
    _example(
        "mask of keys, a sum",
        ", mask_filter_value = -3.0",
        f"{_KV}, int32[2, 5] m, float[1, 2, 3, 5] a",
        ", k, v, , m, a",
        feeds=_mask([1, 1, 0, 1, 0], [0, 1, 1, 1, 1]),
    ),
    _example("lengths", "", f"{_KV}, int32[2] m", ", k, v, , m", feeds=_mask(2, 4)),
    _example(
        "mask of queries and keys",
        "",
        f"{_OWN}, int32[2, 3, 3] m",
        ", k, v, , m",
        feeds=_mask([[1, 1, 0], [1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 1, 1], [1, 0, 0]]),
    ),
    _example(
        "past, present, bias, mask",
        ", unidirectional = 1",
        f"{_OWN}, float[24] b, int32[2, 7] m, {_PAST}",
        ", k, v, b, m, , pk, pv",
        _PRESENT,
        "y, nk, nv",
        _mask([1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 1, 1]),
    ),
    _example("keys of heads", "", ", float[2, 2, 5, 4] k, float[2, 2, 5, 4] v", ", k, v", opset=13),
    _example("scores", ", scale = 0.7", _KV, ", k, v", "float[2, 3, 8] y, float[2, 2, 3, 5] s", "y, , , s"),
)


EXAMPLES = {"contrib-multi-head": _EXAMPLES}

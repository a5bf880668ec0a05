"""Models that the rule masked-softmax takes: attention in float16 of many keys, with a mask or a bias that is added."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

KEYS = 260


def attention(scores: str, given: str = "", keys: str = str(KEYS), opset: int = 18) -> str:
    """Of 2 heads and 3 rows as ONNX text. scores: the statements from the products, `a`, to `s`. given: the mask's input."""
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
g (float16[1,2,3,16] q, float16[1,2,16,{keys}] k, float16[1,2,{keys},16] v{given}) => (float16[1,2,3,16] y)
<float scale = {{0.5}}, float zero = {{0}}, float closed = {{-inf}}> {{
    a = MatMul (q, k)
    {scores}
    p = Softmax <axis = -1> (s)
    y = MatMul (p, v)
}}"""


def _half(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).uniform(-2, 2, shape).astype(np.float16)


_BIAS, _KEEP = f", float16[1,1,3,{KEYS}] bias", f", bool[1,1,1,{KEYS}] keep"
_KEPT = np.arange(KEYS).reshape(1, 1, 1, KEYS) % 3 > 0
_FORMS: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "bias": (attention("s = Add (a, bias)", _BIAS), {"bias": _half(1, 1, 3, KEYS)}),
    "scaled, bias first": (
        attention("half = Cast <to = 10> (scale)\n b = Mul (a, half)\n s = Add (bias, b)", _BIAS, opset=13),
        {"bias": _half(1, 1, 3, KEYS)},
    ),
    "a choice": (
        attention("w = Where (keep, zero, closed)\n m = Cast <to = 10> (w)\n s = Add (a, m)", _KEEP),
        {"keep": _KEPT},
    ),
    "a bias and a mask": (
        attention("b = Add (a, bias)\n s = Add (b, mask)", f"{_BIAS}, float16[1,1,1,{KEYS}] mask"),
        {"bias": _half(1, 1, 3, KEYS), "mask": np.where(_KEPT, np.float16(0), np.float16(-100))},
    ),
    "of any size": (
        attention("s = Add (a, bias)", ", float16[1,1,3,N] bias", "N"),
        {"bias": _half(1, 1, 3, KEYS)},
    ),
}

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "masked-softmax": tuple(
        Example(
            name,
            text,
            feeds={"q": _half(1, 2, 3, 16), "k": _half(1, 2, 16, KEYS), "v": _half(1, 2, KEYS, 16), **mask},
            rtol=2e-3,
            atol=1e-3,
        )
        for name, (text, mask) in _FORMS.items()
    ),
}

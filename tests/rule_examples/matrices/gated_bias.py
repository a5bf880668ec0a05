"""Models that the rule gated-bias takes: feed-forward layers with gates, as exporters write them."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(5)
_X = _RNG.normal(size=(2, 16, 32)).astype(np.float32)


def _constant(name: str, *shape: int) -> str:
    values = np.round(np.random.default_rng(len(name)).normal(0, 0.2, size=shape).ravel(), 3)
    return f"float[{','.join(map(str, shape))}] {name} = {{{', '.join(map(str, values))}}}"


_HALVES = "m = MatMul (x, weight) p = Add (bias, m) h, g = Split <axis = -1, num_outputs = 2> (p)"
_ERF = "s = Div (g, root) e = Erf (s) t = Add (e, one)"
_TANH = """g2 = Mul (g, g) g3 = Mul (g2, g) c = Mul (g3, cubic) d = Add (g, c) s = Mul (d, scale) e = Tanh (s)
 t = Add (e, one)"""
_FORMS = {
    "GEGLU as PyTorch exports it": f"{_HALVES} {_ERF} u = Mul (g, t) a = Mul (u, half) y = Mul (h, a)",
    "half of the gate first": f"{_HALVES} {_ERF} u = Mul (g, half) a = Mul (u, t) y = Mul (a, h)",
    "GELU with Tanh": f"{_HALVES} {_TANH} u = Mul (half, t) a = Mul (g, u) y = Mul (h, a)",
    "the operator Gelu": f"{_HALVES} a = Gelu (g) y = Mul (h, a)",
    "Gelu with Tanh": f'{_HALVES} a = Gelu <approximate = "tanh"> (g) y = Mul (a, h)',
    "ReGLU": f"{_HALVES} a = Relu (g) y = Mul (h, a)",
    "two products": """h = MatMul (x, narrow) n = MatMul (x, narrow) g = Add (n, few)
 a = Relu (g) y = Mul (h, a)""",
    "Relu times a number": "n = MatMul (x, narrow) g = Add (n, few) a = Relu (g) y = Mul (half, a)",
    "Gelu times a number": "n = MatMul (x, narrow) g = Add (n, few) a = Gelu (g) y = Mul (a, scale)",
    "GELU with Erf times a number": f"""n = MatMul (x, narrow) g = Add (n, few) {_ERF} u = Mul (g, t)
 a = Mul (half, u) y = Mul (a, scale)""",
    "a gate in float32 of float16": """k = Cast <to = 10> (x) v = Cast <to = 10> (weight) b = Cast <to = 10> (bias)
 m = MatMul (k, v) p = Add (m, b) h, j = Split <axis = -1, num_outputs = 2> (p) g = Cast <to = 1> (j) """
    + _ERF
    + " u = Mul (g, t) r = Mul (u, half) a = Cast <to = 10> (r) z = Mul (h, a) y = Cast <to = 1> (z)",
}
_CONSTANTS = ", ".join(
    [
        *(
            _constant("weight", 32, 64),
            _constant("bias", 64),
            _constant("narrow", 32, 32),
            _constant("few", 32),
        ),
        "float one = {1.0}, float half = {0.5}, float root = {1.4142135}",
        "float cubic = {0.044715}, float scale = {0.7978846}",
    ]
)


def _example(name: str, body: str, opset: int = 20) -> Example:
    off = 2e-3 if "float16" in name else 1e-5
    text = f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g (float[2,16,32] x) => (float[2,16,32] y) <{_CONSTANTS}> {{ {body} }}"""
    return Example(name, text, feeds={"x": _X}, rtol=off, atol=off)


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "gated-bias": (
        *(_example(name, body) for name, body in _FORMS.items()),
        _example("two products of an early opset", _FORMS["two products"], 7),
    )
}

"""Models that the rule resize-behind-loops takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_RNG = np.random.default_rng(7)
_STEPS = _RNG.normal(0, 1, (4, 2, 3)).astype(np.float32)


def _listed(count: int) -> str:
    return ", ".join(f"{value:.3f}" for value in _RNG.normal(0, 0.5, count))


def _behind_lstm(
    name: str,
    body: str,
    constants: str,
    shape: str = "2, 3, m",
    opset: int = 17,
    reference: bool = False,
) -> Example:
    """y is made of t, of shape [2, 3, T]."""
    squeezed = "q = Squeeze (h, one)" if opset >= 13 else "q = Squeeze <axes = [1]> (h)"
    used = "int64[1] one = {1}, " if opset >= 13 else ""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[T, 2, 3] x) => (float[{shape}] y)
        <float[1, 12, 3] w = {{{_listed(36)}}}, float[1, 12, 3] r = {{{_listed(36)}}}, {used}{constants}> {{
        h = LSTM <hidden_size = 3> (x, w, r) {squeezed} t = Transpose <perm = [1, 2, 0]> (q) {body} }}"""
    return Example(name, text, feeds={"x": _STEPS}, reference=reference, rtol=1e-4, atol=1e-4)


_EXAMPLES = (
    _behind_lstm(
        "nearest, twice as long, float16",
        'f = Cast <to = 10> (t) z = Resize <mode = "nearest"> (f, , k) y = Cast <to = 1> (z)',
        "float[3] k = {1.0, 1.0, 2.0}",
    ),
    _behind_lstm(
        "linear, of two axes, shorter",
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (t, , k)',
        "float[3] k = {1.0, 2.0, 0.5}",
        "2, 6, m",
    ),
    _behind_lstm(
        "sizes of one axis, counted from the end",
        'y = Resize <mode = "linear", axes = [-1]> (t, , , k)',
        "int64[1] k = {7}",
        "2, 3, 7",
        opset=18,
    ),
    _behind_lstm(
        "sizes that the graph computes, empty roi and scales",
        's = Shape (t) k = Mul (s, more) y = Resize <mode = "nearest"> (t, none, none, k)',
        "int64[3] more = {1, 1, 3}, float[0] none = {}",
        opset=11,
    ),
    _behind_lstm(
        "opset 10",
        'y = Resize <mode = "linear"> (t, k)',
        "float[3] k = {1.0, 1.0, 2.0}",
        opset=10,
    ),
    _behind_lstm(
        "Upsample, scales as an attribute",
        'y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0]> (t)',
        "float unread = {0.0}",
        opset=8,
    ),
    _behind_lstm(
        "cubic",
        'y = Resize <mode = "cubic", exclude_outside = 1> (t, , k)',
        "float[3] k = {1.0, 1.0, 1.5}",
        reference=True,
    ),
    _behind_lstm(
        "linear, the first axis too",
        'y = Resize <mode = "linear"> (t, , k)',
        "float[3] k = {2.0, 1.0, 2.0}",
        "4, 3, m",
    ),
    _behind_lstm(
        "volumes",
        'v = Unsqueeze (t, front) y = Resize <mode = "linear"> (v, , k)',
        "int64[2] front = {0, 1}, float[5] k = {1.0, 1.0, 2.0, 1.0, 2.0}",
        "1, 1, 4, 3, m",
    ),
    _behind_lstm(
        "a vector",
        'f = Reshape (t, flat) y = Resize <mode = "nearest"> (f, , k)',
        "int64[1] flat = {-1}, float[1] k = {2.0}",
        "m",
    ),
    Example(
        "in the body of a Loop",
        """<ir_version: 8, opset_import: ["" : 17]> g (float[T, 2, 3] x) => (float[T, 2, 3] y)
        <int64 n = {3}, bool yes = {1}> {
            y = Loop (n, yes, x) <body = b (int64 i, bool c, float[T, 2, 3] s) => (bool c2, float[T, 2, 3] s2)
                <float[3] k = {1.0, 2.0, 2.0}> {
                r = Resize <mode = "nearest"> (s, , k) m = ReduceMean <axes = [1, 2]> (r)
                a = Add (s, m) s2 = Tanh (a) c2 = Identity (c)
            }>
        }""",
        feeds={"x": _STEPS},
    ),
    Example(
        "behind branches of different sizes",
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3, T] x, bool c) => (float[2, 3, m] y)
        <float[3] k = {1.0, 1.0, 1.5}> {
            s = If (c) <then_branch = a () => (float[2, 3, u] p) { p = Concat <axis = 2> (x, x) },
                else_branch = b () => (float[2, 3, v] q) { q = Relu (x) }>
            y = Resize <mode = "linear"> (s, , k)
        }""",
        feeds={"x": _STEPS.transpose(1, 2, 0), "c": np.array(True)},
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {"resize-behind-loops": _EXAMPLES}

"""Models that the rule guarded-softmax takes: attention in float16, with every form of mask."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_KEEP = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]], bool)
"""A mask that leaves nothing of one row."""

CHOICE = "mask = Where (keep, zero, closed)\n    scores = Add (a, mask)"
LOWEST = "-3.4028235e38"


def attention(
    mask: str,
    given: str = "",
    closed: str = "-inf",
    behind: str = "weights = Cast <to = 10> (guarded)",
    size: str = "4",
) -> str:
    """Attention of rows of 16 numbers as ONNX text.

    mask:   the statement that makes `scores` of the products, `a`. given: its input, with the type.
    closed: what a mask has where nothing is read. behind: the statements from the guard to `weights`.
    size:   how many rows there are, a number or a symbol.
    """
    return f"""<ir_version: 8, opset_import: ["" : 18]>
g (float16[2,2,{size},16] q, float16[2,2,16,{size}] k, float16[2,2,{size},16] v{given}) => (float16[2,2,{size},16] y)
<float zero = {{0.0}}, float closed = {{{closed}}}, float scale = {{0.5}},
 float[4,4] causal = {{0, -inf, -inf, -inf, 0, 0, -inf, -inf, 0, 0, 0, -inf, 0, 0, 0, 0}},
 int64[3] joined = {{4, 4, 4}}, int64[4] parted = {{2, 2, 4, 4}}> {{
    products = MatMul (q, k)
    a = Cast <to = 1> (products)
    {mask}
    p = Softmax <axis = -1> (scores)
    missing = IsNaN (p)
    guarded = Where (missing, zero, p)
    {behind}
    y = MatMul (weights, v)
}}"""


def _half(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).uniform(-2, 2, (2, 2, *shape)).astype(np.float16)


_BOOL, _FLOAT = ", bool[4,4] keep", ", float[2,1,4,4] bias"
_MASKS = {
    _BOOL: {"keep": _KEEP},
    _FLOAT: {"bias": np.where([[_KEEP], [_KEEP.T]], np.float32(0.25), np.float32(-np.inf))},
    "": {},
}
_FORMS: dict[str, tuple[str, ...]] = {
    "no mask": ("scores = Mul (a, scale)",),
    "causal": ("scores = Add (a, causal)",),
    "numbers": ("scores = Add (bias, a)", _FLOAT),
    "a choice": (CHOICE, _BOOL),
    "a choice of the lowest number": (CHOICE, _BOOL, LOWEST),
    "scores chosen": ("scores = Where (keep, a, closed)", _BOOL),
    "scores or the lowest number": ("scores = Where (keep, a, closed)", _BOOL, LOWEST),
    "the lowest number twice": (
        f"{CHOICE.replace('scores', 'b')}\n    scores = Add (b, mask)",
        _BOOL,
        LOWEST,
    ),
    "the lowest float16": (
        """half_zero = Cast <to = 10> (zero)
    half_closed = Cast <to = 10> (closed)
    mask = Where (keep, half_zero, half_closed)
    sum = Add (products, mask)
    scores = Cast <to = 1> (sum)""",
        _BOOL,
        "-65504",
    ),
    "reshaped": (
        CHOICE,
        _BOOL,
        "-inf",
        """rows = Reshape (guarded, joined)
    half_rows = Cast <to = 10> (rows)
    weights = Reshape (half_rows, parted)""",
    ),
    "of any size": ("scores = Mul (a, scale)", "", LOWEST, "weights = Cast <to = 10> (guarded)", "S"),
}

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "guarded-softmax": tuple(
        Example(
            name,
            attention(*form),
            feeds={
                "q": _half(4, 16),
                "k": _half(16, 4),
                "v": _half(4, 16),
                **_MASKS[form[1] if form[1:] else ""],
            },
            rtol=2e-3,
            atol=1e-3,
        )
        for name, form in _FORMS.items()
    ),
}

"""Models that the rule exact-casts takes: products of integers whose sums are read as floats."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_A = (np.arange(3 * 9) * 37 % 256).astype(np.uint8).reshape(3, 9)
_B = (np.arange(9 * 4) * 29 % 256 - 128).astype(np.int8).reshape(9, 4)


def _example(name: str, to: int, result: str, rest: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 9] a, int8[9, 4] b, float s) => ({result}[3, 4] y) <uint8 za = {{100}}> {{
            i = MatMulInteger (a, b, za)  f = Cast <to = {to}> (i)  {rest} }}""",
        feeds={"a": _A, "b": _B, "s": np.array(1e-3, np.float32)},
        reference=True,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "exact-casts": (
        _example("scaled", 1, "float", "y = Mul (f, s)"),
        _example("float16", 10, "float16", "y = Neg (f)"),
        _example("two heads", 1, "float", "g = Cast <to = 1> (i)  h = Mul (g, s)  y = Add (f, h)"),
    )
}

"""Models that the rule column-casts takes: products of whole numbers with one column."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_X = np.arange(1 * 9 * 16).reshape(1, 9, 16) * 37 % 511 - 255.0
_W = ", ".join(str(number * 29 % 255 - 127) for number in range(16))


def _example(
    name: str, body: str, result: str = "float[B, T, 1]", x: np.ndarray = _X, to: int = 6
) -> Example:
    return Example(
        name,
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[{"B, T, " if x.ndim == 3 else "T, "}16] x, float s) => ({result} y)
        <float[16, 1] w = {{{_W}}}, float[1] b = {{2.5}}> {{ {body.replace("INTEGER", str(to))} }}""",
        feeds={"x": x.astype(np.float32), "s": np.array(1e-4, np.float32)},
        rtol=1e-6,
    )


_CASTS = "i = Cast <to = INTEGER> (m) f = Cast <to = 1> (i)"

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "column-casts": (
        _example("scaled", f"m = MatMul (x, w) {_CASTS} y = Mul (f, s)"),
        _example("through int64", f"m = MatMul (x, w) {_CASTS} y = Sigmoid (f)", to=7),
        _example("a bias that is cut off", f"p = MatMul (x, w) m = Add (p, b) {_CASTS} y = Mul (f, s)"),
        _example("Gemm", f"m = Gemm (x, w, b) {_CASTS} y = Mul (f, s)", "float[T, 1]", _X[0]),
        _example("the integers are read, too", f"m = MatMul (x, w) {_CASTS} y = Mul (f, s) z = Add (i, i)"),
    )
}

"""Defines small float16 and bfloat16 networks: the values of some exceed the range of their type, those of others do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx

_RAMP = np.linspace(100, 800, 64, dtype=np.float64).reshape(1, 64)

DTYPES: Mapping[str, np.dtype] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True)
class Narrow:
    """A small network. body: nodes from x, [1, 64], to y in onnx.parser's syntax. T is the type.

    x: values of x, by type. held: whether the type holds every value that matters. columns: of y.
    """

    body: str
    x: Mapping[str, np.ndarray]
    held: bool = False
    columns: int = 64

    def model(self, dtype: str) -> onnx.ModelProto:
        text = f"""<ir_version: 10, opset_import: ["" : 20]>
            g (T[1,64] x) => (T[1,{self.columns}] y) {{ axes = Constant <value = int64[1] {{-1}}> () {self.body} }}"""
        model = onnx.parser.parse_model(text.replace("T[", f"{dtype}["))
        onnx.checker.check_model(model, full_check=True)
        return model

    def feed(self, dtype: str) -> np.ndarray:
        return self.x[dtype].astype(DTYPES[dtype])


def _x(half: float, brain: float | None = None) -> dict[str, np.ndarray]:
    """A ramp times these factors, by type; without the second the network has no bfloat16 form."""
    return {"float16": _RAMP * half} | ({} if brain is None else {"bfloat16": _RAMP * brain})


def _constant(name: str, value: float) -> str:
    return f"{name}0 = Constant <value_float = {float(value)!r}> () {name} = CastLike ({name}0, x)"


_WEIGHTS = f"{_constant('one', 1)} shape = Constant <value = int64[2] {{64, 8}}> () w = Expand (one, shape)"
_NORM = "q = Mul (x, x) r = ReduceSum <keepdims = 1> (q, axes) s = Sqrt (r) y = Div (x, s)"
_MASK = f"{_constant('o', 0)} {_constant('c', 30)} far = Greater (x, c) m = Where (far, l, o) a = Add (x, m) y = Softmax (a)"

NETWORKS: Mapping[str, Narrow] = {
    "square and root": Narrow("s = Mul (x, x) y = Sqrt (s)", _x(1)),
    "power and root": Narrow(f"{_constant('two', 2)} s = Pow (x, two) y = Sqrt (s)", _x(1)),
    "exponential and logarithm": Narrow("s = Exp (x) y = Log (s)", _x(1 / 20)),
    "exponential that vanishes": Narrow("s = Exp (x) y = Log (s)", _x(-1 / 20, -1 / 8)),
    "L2 norm": Narrow("s = ReduceL2 <keepdims = 1> (x, axes) y = Div (x, s)", _x(20)),
    "L2 norm in parts": Narrow(_NORM, _x(1)),
    "L2 norm of small numbers": Narrow(_NORM, _x(1e-7, 1e-24)),
    "scale and back": Narrow(
        f"{_constant('a', 1000)} {_constant('b', 0.001)} s = Mul (x, a) y = Mul (s, b)", _x(1)
    ),
    "small scale and back": Narrow(
        f"{_constant('a', 1e-5)} {_constant('b', 1e4)} s = Mul (x, a) y = Mul (s, b)", _x(1e-5)
    ),
    "tiny scale and back": Narrow(
        f"{_constant('a', 1e-30)} {_constant('b', 1e30)} s = Mul (x, a) y = Mul (s, b)", _x(1e-14, 1e-14)
    ),
    "sum and mean": Narrow(
        f"s = ReduceSum <keepdims = 1> (x, axes) {_constant('b', 1 / 64)} y = Mul (s, b)", _x(20), columns=1
    ),
    "product and scale": Narrow(
        f"{_WEIGHTS} s = MatMul (x, w) {_constant('b', 0.01)} y = Mul (s, b)", _x(10), columns=8
    ),
    "product, activation and scale": Narrow(
        f"{_WEIGHTS} s = MatMul (x, w) r = Relu (s) {_constant('b', 0.01)} y = Mul (r, b)", _x(10), columns=8
    ),
    "variance": Narrow(
        "m = ReduceMean <keepdims = 1> (x, axes) d = Sub (x, m) q = Mul (d, d) v = ReduceMean <keepdims = 1> (q, axes) "
        "s = Sqrt (v) y = Div (d, s)",
        _x(3),
    ),
    "variance by squares": Narrow(
        "m = ReduceMean <keepdims = 1> (x, axes) p = Mul (m, m) q = Mul (x, x) r = ReduceMean <keepdims = 1> (q, axes) "
        f"v = Sub (r, p) {_constant('k', 800)} n = Div (x, k) s = Sqrt (v) y = Div (n, s)",
        dict.fromkeys(("float16", "bfloat16"), 200 + _RAMP / 500),
    ),
    "softplus in parts": Narrow(
        f"{_constant('one', 1)} p = Exp (x) q = Add (p, one) y = Log (q)", _x(1 / 20)
    ),
    "softmax in parts": Narrow(
        "p = Exp (x) s = ReduceSum <keepdims = 1> (p, axes) y = Div (p, s)", _x(1 / 50)
    ),
    "attention that is scaled late": Narrow(
        f"q = Mul (x, x) {_constant('b', 1e-4)} t = Mul (q, b) y = Softmax (t)", _x(1)
    ),
    "RMS norm": Narrow(
        f"{_constant('two', 2)} {_constant('e', 1e-6)} q = Pow (x, two) m = ReduceMean <keepdims = 1> (q, axes) "
        "a = Add (m, e) s = Sqrt (a) y = Div (x, s)",
        _x(1),
    ),
    "add and take away": Narrow(
        f"{_constant('a', 30000)} s = Add (x, a) y = Sub (s, a)", _x(1 / 100, 1 / 100)
    ),
    "far and back": Narrow(f"{_constant('a', 65000)} s = Add (x, a) y = Sub (s, a)", _x(2)),
    "count": Narrow(
        f"{_constant('a', 1e-4)} {_constant('one', 1)} s = Add (one, a) t = Sub (s, one) y = Mul (x, t)",
        _x(1, 1),
    ),
    "square": Narrow("y = Mul (x, x)", _x(1)),
    "cube root": Narrow(f"{_constant('a', 3)} s = Pow (x, a) {_constant('b', 0.333)} y = Pow (s, b)", _x(1)),
    "a mean": Narrow("y = ReduceMean <keepdims = 1> (x, axes)", _x(20, 1), True, 1),
    "a mask of the lowest number": Narrow(f"{_constant('l', -65504)} {_MASK}", _x(1 / 20, 1 / 20), True),
    "a mask beyond float16": Narrow(
        f"{_constant('g', -1e38)} l = Identity (g) {_MASK}", _x(1 / 20, 1 / 20), True
    ),
    "a sigmoid in parts": Narrow(
        f"{_constant('one', 1)} n = Neg (x) p = Exp (n) q = Add (p, one) y = Reciprocal (q)",
        dict.fromkeys(("float16", "bfloat16"), (_RAMP - 400) / 30),
        True,
    ),
    "a norm": Narrow(_NORM, _x(1 / 100, 1), True),
    "an RMS norm": Narrow(
        f"{_constant('e', 1e-3)} q = Mul (x, x) m = ReduceMean <keepdims = 1> (q, axes) a = Add (m, e) s = Sqrt (a) "
        "y = Div (x, s)",
        _x(1 / 100, 1),
        True,
    ),
    "a product": Narrow(f"{_WEIGHTS} s = MatMul (x, w) y = Tanh (s)", _x(1e-5, 1e-5), True, 8),
}


def cases() -> Iterator[tuple[str, str, Narrow]]:
    """Each network in each of its types, with a name."""
    for name, network in NETWORKS.items():
        for dtype in network.x:
            yield f"{name}, {dtype}", dtype, network

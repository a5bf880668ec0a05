"""BitwiseAnd, -Or, -Xor and -Not by integer arithmetic: TensorRT has logical operators for bools only.

Only And looks at bits. The others follow from it without overflow, as every difference below is itself a value of the
type (b - (a & b) is b & ~a):  a | b = a + (b - (a & b)),  a ^ b = (a - (a & b)) + (b - (a & b)),  ~a = -1 - a.
"""

from __future__ import annotations

import numpy as np

from converter.passes.integer_carriers import CARRIERS, ONNX_TYPES, Carrier
from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import read_by, reduce, unsqueeze

_RADIX = 16
"""Digits that are looked up in pairs: 256 products of digits; 2 would need no table, but four times the memory."""

_LAST_STEP = {
    "BitwiseAnd": "result = Identity (both)",
    "BitwiseOr": """
        rest = Sub (b, both)
        result = Add (a, rest)
    """,
    "BitwiseXor": """
        left = Sub (a, both)
        right = Sub (b, both)
        result = Add (left, right)
    """,
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype is None or dtype not in CARRIERS:
        return Refusal(
            f"the element type of {node.input(0)!r} is {dtype or 'unknown'}",
            "an integer type of 8 to 64 bits",
            "run onnx.shape_inference on the model, so that types are known",
        )
    carrier = CARRIERS[dtype]
    if node.op_type == "BitwiseNot":
        return _inverted(node, dtype, carrier)
    masks = ((i, high, _modulus(node.constant(i), carrier, high)) for high in (False, True) for i in (0, 1))
    at, high, modulus = next((mask for mask in masks if mask[2] is not None), (0, False, None))
    common = _digitwise(carrier, node.opset) if modulus is None else _masked("ab"[1 - at], high)
    body = f"""
        a = Cast <to = {carrier.onnx_type}> (x0)
        b = Cast <to = {carrier.onnx_type}> (x1)
        {carrier.magnitude("a")}
        {carrier.magnitude("b")}
        {common}
        {_LAST_STEP[node.op_type]}
        y0 = Cast <to = {ONNX_TYPES[dtype]}> (result)
    """
    places = [_RADIX**k for k in range(-(-carrier.magnitude_bits // 4))]
    pairs = np.arange(_RADIX)[:, None] & np.arange(_RADIX)
    constants = {
        "zero": carrier.constant(0),
        "one": np.array(1),
        "lowest": carrier.lowest,
        "radix": carrier.constant(_RADIX),
        "places": carrier.constant([places[:8], places[8:]] if len(places) > 8 else places),
        "weights": carrier.constant(places[:8]),
        "word": np.array(1 << 32),
        "table": carrier.constant(pairs.reshape(-1)),
    }
    if modulus is not None:
        constants["modulus"] = modulus
    how = "digits of four bits" if modulus is None else "a remainder, as the mask is constant"
    return Replacement(node.statements(body, **read_by(body, constants)), f"integer arithmetic on {how}")


def _inverted(node: NodeView, dtype: str, carrier: Carrier) -> Replacement:
    body = f"""
        a = Cast <to = {carrier.onnx_type}> (x0)
        result = Sub (ones, a)
        y0 = Cast <to = {ONNX_TYPES[dtype]}> (result)
    """
    ones = carrier.constant(-1 if carrier.signed else (1 << carrier.width) - 1)
    return Replacement(node.statements(body, ones=ones), "the all-ones value less the operand")


def _modulus(mask: np.ndarray | None, carrier: Carrier, high: bool) -> np.ndarray | None:
    """2^k for every element of a mask of the k lowest bits, or of all others if `high`; None if it is no such mask."""
    if mask is None:
        return None
    ones = (1 << carrier.width) - 1
    highest = int(np.iinfo(carrier.dtype).max)
    low = [(int(n) & ones) ^ (ones if high else 0) for n in mask.reshape(-1)]
    if any(n >= highest or n & (n + 1) for n in low):
        return None
    return carrier.constant([n + 1 for n in low]).reshape(mask.shape)


def _masked(value: str, high: bool) -> str:
    """x modulo 2^k has the k lowest bits. The lowest value of the type is a multiple of 2^k: the magnitude decides."""
    if high:
        return f"""
            low_bits = Mod ({value}_m, modulus)
            both = Sub ({value}, low_bits)
        """
    return f"both = Mod ({value}_m, modulus)"


def _digitwise(carrier: Carrier, opset: int) -> str:
    """Digits along new last axes, the pairs of them looked up, and the digits of the result weighed and added.

    Words of 32 bits are added each for itself: onnxruntime sums int64 through doubles, which are exact up to 2^53.
    """
    long = carrier.magnitude_bits > 32

    def digits(name: str) -> str:
        return f"""
            {unsqueeze(f"{name}_1", f"{name}_m", [-2, -1] if long else [-1], opset)}
            {name}_over = Div ({name}_1, places)
            {name}_d = Mod ({name}_over, radix)
        """

    text = f"""
        {digits("a")}
        {digits("b")}
        scaled = Mul (a_d, radix)
        pair = Add (scaled, b_d)
        common = Gather <axis = 0> (table, pair)
        weighed = Mul (common, weights)
        {reduce("ReduceSum", "words" if long else "both_m", "weighed", [-1], opset, keepdims=False)}
    """
    if not long:
        return text + _with_sign(carrier)
    return f"""
        {text}
        low = Gather <axis = -1> (words, zero)
        high = Gather <axis = -1> (words, one)
        above = Mul (high, word)
        both_m = Add (above, low)
        {_with_sign(carrier)}
    """


def _with_sign(carrier: Carrier) -> str:
    if not carrier.signed:
        return "both = Identity (both_m)"
    return """
        both_s = And (a_s, b_s)
        both_sign = Where (both_s, lowest, zero)
        both = Add (both_m, both_sign)
    """


def _random(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """All bits random, and both ends of the type."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)
    values.reshape(-1)[:2] = info.min, info.max
    return values


def _example(op_type: str, dtype: str) -> Example:
    shapes = {"x": (3, 1, 5), "z": (2, 5)}
    return Example(
        f"{op_type}-{dtype}",
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g ({dtype}[3, 1, 5] x, {dtype}[2, 5] z) => ({dtype}[3, 2, 5] y) {{ y = {op_type} (x, z) }}""",
        feeds={name: _random(dtype, shape, seed) for seed, (name, shape) in enumerate(shapes.items())},
        reference=True,
    )


_EXAMPLES = (
    *(_example("BitwiseAnd", dtype) for dtype in CARRIERS),
    *(_example(op_type, dtype) for op_type in ("BitwiseOr", "BitwiseXor") for dtype in ("int32", "uint64")),
    *(
        Example(
            f"not-{dtype}",
            f"""<ir_version: 9, opset_import: ["" : 18]>
            g ({dtype}[3, 4] x) => ({dtype}[3, 4] y) {{ y = BitwiseNot (x) }}""",
            feeds={"x": _random(dtype, (3, 4), 5)},
            reference=True,
        )
        for dtype in ("int64", "uint32", "uint64")
    ),
    *(
        Example(
            f"mask-{dtype}",
            f"""<ir_version: 9, opset_import: ["" : 18]>
            g ({dtype}[4, 3] x) => ({dtype}[4, 3] y, {dtype}[4, 3] z, {dtype}[4, 3] w)
            <{dtype}[3] low = {{15, 0, 127}}, {dtype}[3] high = {{{high}}}, {dtype} single = {{1}}> {{
                y = BitwiseAnd (x, low)
                z = BitwiseXor (high, x)
                w = BitwiseOr (x, single)
            }}""",
            feeds={"x": _random(dtype, (4, 3), 6)},
            reference=True,
        )
        for dtype, high in (
            ("int32", "-16, -1, -1073741824"),
            ("int64", "-16, -1, -4611686018427387904"),
            ("uint8", "240, 255, 128"),
            ("uint32", "4294967280, 4294967295, 2147483648"),
        )
    ),
    Example(
        "other-bits",
        """<ir_version: 9, opset_import: ["" : 18]>
        g (int64[4, 3] x) => (int64[4, 3] y) <int64[3] masks = {-16, 240, 9223372036854775807}> {
            y = BitwiseAnd (masks, x)
        }""",
        feeds={"x": _random("int64", (4, 3), 7)},
        reference=True,
    ),
)

BITWISE = NodeRule(
    "bitwise",
    "bitwise And, Or, Xor and Not by integer arithmetic",
    ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    _rewrite,
    _EXAMPLES,
)

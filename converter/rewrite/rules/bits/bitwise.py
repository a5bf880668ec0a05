"""Rewrites BitwiseAnd, -Or, -Xor and -Not as integer arithmetic: TensorRT has logical operators for bools only.

Only And looks at bits. The others follow from it without overflow, as every difference below is itself a value of the
type (b - (a & b) is b & ~a):  a | b = a + (b - (a & b)),  a ^ b = (a - (a & b)) + (b - (a & b)),  ~a = -1 - a.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.bits.bit_digits import digitwise, masked, modulus
from trtsmith.converter.rewrite.rules.bits.legal_integers import LEGAL_INTEGERS


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype is None or dtype not in LEGAL_INTEGERS:
        return Refusal(
            f"the element type of {node.input(0)!r} is {dtype or 'unknown'}",
            "an integer type of 8 to 64 bits",
            "run onnx.shape_inference on the model, so that types are known",
        )
    legal = LEGAL_INTEGERS[dtype]
    w = Writer(node)
    a = w.Cast(w.x[0], to=legal.dtype)
    if node.op_type == "BitwiseNot":
        ones = legal.constant(-1 if legal.signed else (1 << legal.width) - 1)
        return Replacement(w.finish(w.Cast(w.Sub(ones, a), to=dtype)), "the all-ones value less the operand")
    values = (a, w.Cast(w.x[1], to=legal.dtype))
    parts = [legal.magnitude(w, value) for value in values]
    masks = ((i, high, modulus(node.constant(i), legal, high)) for high in (False, True) for i in (0, 1))
    at, high, power = next((mask for mask in masks if mask[2] is not None), (0, False, None))
    if power is None:
        both, how = digitwise(w, legal, *parts), "digits of four bits"
    else:
        both = masked(w, values[1 - at], parts[1 - at][0], power, high)
        how = "a remainder, as the mask is constant"
    return Replacement(
        w.finish(w.Cast(_last_step(w, node.op_type, *values, both), to=dtype)), f"integer arithmetic on {how}"
    )


def _last_step(w: Writer, op_type: str, a: Value, b: Value, both: Value) -> Value:
    """Writes the operator from a & b."""
    if op_type == "BitwiseAnd":
        return both
    return w.Add(a if op_type == "BitwiseOr" else w.Sub(a, both), w.Sub(b, both))


def _random(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """All bits random, and both ends of the type."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)
    values.reshape(-1)[:2] = info.min, info.max
    return values


BITWISE = NodeRule(
    "bitwise",
    "bitwise And, Or, Xor and Not by integer arithmetic",
    ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    _rewrite,
)

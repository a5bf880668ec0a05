"""BitwiseAnd, -Or, -Xor and -Not by integer arithmetic: TensorRT has logical operators for bools only.

Only And looks at bits. The others follow from it without overflow, as every difference below is itself a value of the
type (b - (a & b) is b & ~a):  a | b = a + (b - (a & b)),  a ^ b = (a - (a & b)) + (b - (a & b)),  ~a = -1 - a.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.bits.bit_digits import digit_tables, digitwise, masked, modulus
from trtsmith.converter.rewrite.rules.bits.legal_integers import CARRIERS, Carrier
from trtsmith.importers.dtypes import NUMBERS

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
    masks = ((i, high, modulus(node.constant(i), carrier, high)) for high in (False, True) for i in (0, 1))
    at, high, power = next((mask for mask in masks if mask[2] is not None), (0, False, None))
    common = digitwise(carrier, node.opset) if power is None else masked("ab"[1 - at], high)
    body = f"""
        a = Cast <to = {carrier.onnx_type}> (x0)
        b = Cast <to = {carrier.onnx_type}> (x1)
        {carrier.magnitude("a")}
        {carrier.magnitude("b")}
        {common}
        {_LAST_STEP[node.op_type]}
        y0 = Cast <to = {NUMBERS[dtype]}> (result)
    """
    constants = digit_tables(carrier)
    if power is not None:
        constants["modulus"] = power
    how = "digits of four bits" if power is None else "a remainder, as the mask is constant"
    return Replacement(statements(node, body, **read_by(body, constants)), f"integer arithmetic on {how}")


def _inverted(node: NodeView, dtype: str, carrier: Carrier) -> Replacement:
    body = f"""
        a = Cast <to = {carrier.onnx_type}> (x0)
        result = Sub (ones, a)
        y0 = Cast <to = {NUMBERS[dtype]}> (result)
    """
    ones = carrier.constant(-1 if carrier.signed else (1 << carrier.width) - 1)
    return Replacement(statements(node, body, ones=ones), "the all-ones value less the operand")


BITWISE = NodeRule(
    "bitwise",
    "bitwise And, Or, Xor and Not by integer arithmetic",
    ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    _rewrite,
)

"""Rewrites products with a GELU or a Relu of a biased matrix product, whose bias TensorRT-RTX would otherwise lose.

TensorRT-RTX 1.6.1 fuses h * gelu(x W + b) and h * relu(x W + b) with the product of matrices and leaves the bias out, also
where h is a number; where h is the other half of the same product, in float32 that of h, too. The feed-forward layers of
diffusers' UNets (GEGLU) were off by 3e-2, a scaled Relu by 0.7. Seen on an H200 in float32, float16
and bfloat16, for GELU with Erf, with Tanh and as an operator; gates with Sigmoid, Swish, Mish, Tanh, LeakyRelu and HardSwish
are right, and so are those without a bias or of convolutions. The same numbers come out right as ((h * g) * 0.5) * (1 + erf)
and as h * Max(g, 0), for which it has no such kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from trtsmith.converter.graph.operator_groups import MOVING
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "leaves out the bias of a product of matrices whose GELU or Relu is multiplied",
    "engines of single layers run on an H200",
)

_MOVES = MOVING - {"Expand", "Gather"} | {"Cast"}


@node_rule("gated-bias", "Mul", faults=(_FAULT,))
def gated_bias_rule(node: NodeView) -> Replacement | None:
    """Rewrites products with a GELU or a Relu of a biased matrix product."""
    for index in (0, 1):
        gate, other = _past(node.maker(index), "Cast"), node.constant(1 - index)
        if gate is None:
            continue
        w = Writer(node)
        if gate.is_a("Relu") and _biased(gate.maker(0)):
            g, dtype = w.value(gate.input(0)), gate.dtype(0) or "float32"
            early = node.opset < 8  # there Max takes tensors of one shape alone
            kept = w.clip(g, 0.0, None, dtype) if early else w.Max(g, w.number(0, dtype))
            product = w.Mul(w.x[1 - index], _as(w, kept, gate, node))
        elif gate.is_a("Gelu") and _biased(gate.maker(0)):
            g, dtype = w.value(gate.input(0)), gate.dtype(0) or "float32"
            half = _as(w, w.Mul(g, w.number(0.5, dtype)), gate, node)
            product = w.Mul(w.Mul(half, w.x[1 - index]), _as(w, _step(w, g, gate), gate, node))
        elif gate.is_a("Mul"):
            factors = list(_factors(gate))
            steps = [one for one in factors if _is_step(gate, one)]
            left = [one for one in factors if one not in steps]
            if len(steps) != 1 or not any(_biased(gate.maker_of(one)) for one in left):
                continue
            # g * (1 + erf) * 0.5 is the GELU itself.
            if other is not None and other.size == 1 and len(left) == 1:
                continue
            value = w.value(left[0])
            for one in left[1:]:
                value = w.Mul(value, one)
            value = w.Mul(_as(w, value, gate, node), w.x[1 - index])
            product = w.Mul(value, _as(w, w.value(steps[0]), gate, node))
        else:
            continue
        return Replacement(
            w.finish(product),
            "the gate's factors in another order",
            notes=(node.because((_FAULT,), "the product is written in another form"),),
        )
    return None


def _as(w: Writer, value: Value, gate: NodeView, node: NodeView) -> Value:
    """Casts a value of the gate's type to the node's type."""
    dtype = node.dtype(0)
    return value if dtype is None or gate.dtype(0) == dtype else w.Cast(value, to=dtype)


def _step(w: Writer, g: Value, gelu: NodeView) -> Value:
    """1 + erf(g / sqrt 2), or the tanh form if the Gelu node asks for it."""
    dtype = gelu.dtype(0) or "float32"
    if gelu.attributes.get("approximate") == "tanh":
        cube = w.Mul(w.Mul(w.Mul(g, g), g), w.number(0.044715, dtype))
        bend = w.Tanh(w.Mul(w.Add(g, cube), w.number(math.sqrt(2 / math.pi), dtype)))
    else:
        bend = w.Erf(w.Mul(g, w.number(math.sqrt(0.5), dtype)))
    return w.Add(bend, w.number(1, dtype))


def _factors(product: NodeView) -> Iterator[str]:
    """The factors of a product, through nested Mul nodes."""
    for index in (0, 1):
        maker = product.maker(index)
        if maker is not None and maker.is_a("Mul"):
            yield from _factors(maker)
        else:
            yield product.input(index)


def _is_step(node: NodeView, name: str) -> bool:
    """Whether the value is 1 + erf or 1 + tanh, perhaps behind a Cast."""
    maker = _past(node.maker_of(name), "Cast")
    if maker is None or not maker.is_a("Add"):
        return False
    for index in (0, 1):
        bend, one = _past(maker.maker(index), "Cast"), maker.constant(1 - index)
        is_one = one is not None and one.size == 1 and one.item() == 1
        if is_one and bend is not None and bend.is_a("Erf", "Tanh"):
            return True
    return False


def _biased(maker: NodeView | None) -> bool:
    """Whether a value is a matrix product with a bias, or a part of one."""
    maker = _past(maker, *_MOVES)
    if maker is None or maker.is_a("Gemm"):
        return maker is not None and bool(maker.input(2))
    if not maker.is_a("Add", "Sub"):
        return False
    for index in (0, 1):
        product = _past(maker.maker(index), *_MOVES)
        if product is not None and product.is_a("MatMul", "Gemm") and maker.is_constant(1 - index):
            return True
    return False


def _past(maker: NodeView | None, *op_types: str) -> NodeView | None:
    """The first maker that is not of these types, along the first inputs."""
    while maker is not None and maker.is_a(*op_types):
        maker = maker.maker(0)
    return maker

"""Splits onnxruntime's fused convolutions and matrix products into standard operators.

Splits onnxruntime's fused matrix products: transposed operands, a factor, an activation.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    ADVICE,
    activation,
    fast_gelu,
    float_type,
)

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@node_rule("contrib-conv", *(f"com.microsoft::{name}" for name in ("FusedConv", "NhwcConv", "NhwcFusedConv")))
def contrib_conv_rule(node: NodeView) -> Replacement | Refusal | None:
    """Splits onnxruntime's fused convolutions into Conv and the operators that follow it."""
    dtype = float_type(node)
    last = node.op_type != "FusedConv"
    rank = node.rank(0) or node.rank(1)
    if last and rank is None:
        return node.unknown(0, "the rank")
    fault = _other_layout(node) if last else None
    if fault is not None:
        return fault
    inward = [0, (rank or 2) - 1, *range(1, (rank or 2) - 1)]
    outward = [0, *range(2, rank or 2), 1]
    w = Writer(node)
    data = w.Transpose(w.x[0], perm=inward) if last else w.x[0]
    conv = w.Conv(data, w.x[1], *([w.x[2]] if node.input(2) else []), **node.own(*_ATTRIBUTES))
    first = w.Transpose(conv, perm=outward) if last else conv
    total = w.Add(first, w.x[3]) if node.input(3) else first
    name = node.attributes.get("activation", "")
    active = activation(w, total, name, node.attributes.get("activation_params", []), dtype)
    if active is None:
        return Refusal(
            f"the activation {name!r} is unknown",
            "an activation of ONNX that onnxruntime fuses, as Relu or Clip",
            "save the model at a lower graph_optimization_level",
        )
    return Replacement(w.finish(active), f"{node.op_type} as Conv, with what was fused into it apart")


def _other_layout(node: NodeView) -> Refusal | None:
    """Refuses a channels-last convolution whose weights some provider saved in a layout other than ONNX's."""
    kernel, weights = node.attributes.get("kernel_shape"), node.shape(1)
    if not kernel or weights is None or list(weights[2:]) == list(kernel):
        return None
    return Refusal(
        f"the weights have shape {list(weights)}, which does not end with kernel_shape {list(kernel)}",
        "weights laid out as those of ONNX's Conv",
        ADVICE,
    )


def _order(rank: int, swap: bool, batch: bool) -> list[int]:
    """The permutation of an operand's dimensions. `batch`: moves the first dimension behind all but the last."""
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if swap:
        order[-2:] = reversed(order[-2:])
    return order


def _operand(w: Writer, index: int, side: str) -> Value | Refusal:
    """The operand A or B of the product."""
    swap = bool(w.node.attributes.get(f"trans{side}"))
    batch = bool(w.node.attributes.get(f"transBatch{side}"))
    rank = w.node.rank(index)
    if rank is None and (swap or batch):
        return w.node.unknown(index, "the rank")
    if rank is None or rank < 2 or not (swap or batch):  # a vector has nothing to transpose
        return w.x[index]
    return w.Transpose(w.x[index], perm=_order(rank, swap, batch))


def _activation(node: NodeView, names: Sequence[str]) -> list[float]:
    """The parameters of the activation that the node sets."""
    values = (node.attributes.get(f"activation_{name}") for name in names)
    return [float(value) for value in values if value is not None]


def _product(w: Writer, dtype: str) -> Value | Refusal:
    product = w.MatMul(*(unrefused(_operand(w, index, side)) for index, side in enumerate("AB")))
    alpha = w.node.attributes.get("alpha", 1.0)
    return product if alpha == 1.0 else w.Mul(product, w.number(alpha, dtype))


def _gemm(w: Writer) -> Value:
    """A Gemm with the node's own attributes."""
    given = w.node.own("alpha", "beta", "transA", "transB")
    product: Value = w.Gemm(*(x for x in w.x if x.name), **given)
    return product


@node_rule(
    "contrib-matmul",
    *(
        f"com.microsoft::{name}"
        for name in ("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "FusedGemm", "GemmFastGelu")
    ),
)
def contrib_matmul_rule(node: NodeView) -> Replacement | Refusal | None:
    """Splits onnxruntime's fused matrix products into Transpose, MatMul or Gemm, and the operators that follow."""
    dtype = float_type(node)
    w = Writer(node)
    if node.op_type == "GemmFastGelu":
        product = w.MatMul(w.x[0], w.x[1])
        total = w.Add(product, w.x[2]) if node.input(2) else product
        return Replacement(w.finish(fast_gelu(w, total, dtype)), "MatMul and GELU by tanh")
    first = unrefused(_gemm(w) if node.op_type == "FusedGemm" else _product(w, dtype))
    name = node.attributes.get("activation", "")
    last = activation(w, first, name, _activation(node, ("alpha", "beta", "gamma")), dtype)
    if last is None:
        return Refusal(
            f"the activation {name!r} is unknown",
            "an activation of ONNX that onnxruntime fuses, as Relu or LeakyRelu",
            "save the model at a lower graph_optimization_level",
        )
    what = "Gemm" if node.op_type == "FusedGemm" else "MatMul"
    return Replacement(w.finish(last), f"{what}, with what was fused into it apart")

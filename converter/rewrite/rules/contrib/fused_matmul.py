"""onnxruntime's fused matrix products: transposed operands, a factor, an activation."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    activation,
    fast_gelu,
    float_type,
    number,
    unknown,
    unknown_type,
)


def _order(rank: int, swap: bool, batch: bool) -> list[int]:
    """Which dimension of an operand stands where. `batch`: the first dimension goes behind the ones that follow it."""
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if swap:
        order[-2:] = reversed(order[-2:])
    return order


def _operand(node: NodeView, index: int, side: str) -> str | Refusal:
    """The lines that make the operand `a` or `b` of the product."""
    swap = bool(node.attributes.get(f"trans{side}"))
    batch = bool(node.attributes.get(f"transBatch{side}"))
    name = side.lower()
    rank = node.rank(index)
    if rank is None and (swap or batch):
        return unknown(node, index, "the rank")
    if rank is None or rank < 2 or not (swap or batch):  # a vector has nothing to transpose
        return f"{name} = Identity (x{index})"
    order = ", ".join(map(str, _order(rank, swap, batch)))
    return f"{name} = Transpose <perm = [{order}]> (x{index})"


def _activation(node: NodeView, names: Sequence[str]) -> list[float]:
    """The activation's parameters, as far as they are given."""
    values = (node.attributes.get(f"activation_{name}") for name in names)
    return [float(value) for value in values if value is not None]


def _product(node: NodeView, dtype: str) -> str | Refusal:
    lines = []
    for index, side in enumerate("AB"):
        operand = _operand(node, index, side)
        if isinstance(operand, Refusal):
            return operand
        lines.append(operand)
    lines.append("product = MatMul (a, b)")
    alpha = node.attributes.get("alpha", 1.0)
    if alpha == 1.0:
        lines.append("scaled = Identity (product)")
    else:
        lines += [number("alpha", alpha, dtype), "scaled = Mul (product, alpha)"]
    return "\n".join(lines)


def _gemm(node: NodeView) -> str:
    """Gemm with the node's own attributes."""
    given = ", ".join(
        f"{name} = {node.attributes[name]!r}"
        for name in ("alpha", "beta", "transA", "transB")
        if node.given(name)
    )
    inputs = ", ".join(f"x{i}" for i in range(3) if node.input(i))
    return f"scaled = Gemm {f'<{given}>' if given else ''} ({inputs})"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    if node.op_type == "GemmFastGelu":
        bias = "sum = Add (product, x2)" if node.input(2) else "sum = Identity (product)"
        body = f"product = MatMul (x0, x1)\n{bias}\n{fast_gelu('y0', 'sum', dtype, node.opset)}"
        return Replacement(node.statements(body), "MatMul and GELU by tanh")
    first = _gemm(node) if node.op_type == "FusedGemm" else _product(node, dtype)
    if isinstance(first, Refusal):
        return first
    name = node.attributes.get("activation", "")
    last = activation("y0", "scaled", name, _activation(node, ("alpha", "beta", "gamma")), dtype, node.opset)
    if last is None:
        return Refusal(
            f"the activation {name!r} is unknown",
            "an activation of ONNX that onnxruntime fuses, as Relu or LeakyRelu",
            "save the model at a lower graph_optimization_level",
        )
    what = "Gemm" if node.op_type == "FusedGemm" else "MatMul"
    return Replacement(node.statements(f"{first}\n{last}"), f"{what}, with what was fused into it apart")


CONTRIB_MATMUL = NodeRule(
    "contrib-matmul",
    "onnxruntime's fused matrix products become Transpose, MatMul or Gemm, and what was fused into them",
    tuple(
        f"com.microsoft::{name}"
        for name in ("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "FusedGemm", "GemmFastGelu")
    ),
    _rewrite,
)

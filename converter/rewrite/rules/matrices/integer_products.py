"""MatMul, Gemm and Relu of int32 and int64, which ONNX defines and TensorRT has for floats only.

A matrix product is written out as elementwise products and a sum, so that it wraps as integers do: M * K * N elements.
Quantised products (MatMulInteger and others) have rules of their own, which use float32 where that is exact.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import reduce, squeeze, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements

_INTEGERS = ("int32", "int64", "uint32", "uint64")

LARGEST = 1 << 28
"""Elements of the largest tensor of products that is built: 1 GiB of int32."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype not in _INTEGERS:
        return None
    if node.op_type == "Relu":
        body = "y0 = Max (x0, zero)"
        return Replacement(statements(node, body, zero=np.array(0, dtype)), "Max with 0")
    ranks = node.rank(0), node.rank(1)
    if ranks[0] is None or ranks[1] is None:
        return Refusal(
            f"the rank of {node.input(0)!r} or {node.input(1)!r} is unknown",
            "integer matrices of known rank",
            "run onnx.shape_inference on the model, or export it with shapes",
        )
    size = _products(node)
    if size > LARGEST:
        return Refusal(
            f"the product of integers has {size:,} terms",
            f"at most {LARGEST:,} terms",
            "cast the operands to float32, where sums below 2^24 are exact",
        )
    if node.op_type == "MatMul":
        return Replacement(statements(node, _product(ranks[0], ranks[1], node.opset)), "products and a sum")
    return _gemm(node)


def _gemm(node: NodeView) -> Replacement | Refusal:
    factors = {name: float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta")}
    if any(value != 1 for value in factors.values()):
        return Refusal(
            f"Gemm of integers with alpha {factors['alpha']:g} and beta {factors['beta']:g}",
            "factors of 1",
            "multiply the operands by whole numbers in the model, or cast them to float32",
        )
    sides = {
        f"x{i}": f"t{i} = {'Transpose <perm = [1, 0]>' if node.attributes.get(name) else 'Identity'} (x{i})"
        for i, name in enumerate(("transA", "transB"))
    }
    body = f"""
        {sides["x0"]}
        {sides["x1"]}
        {_product(2, 2, node.opset, "t0", "t1", "product")}
        y0 = {"Add (product, x2)" if node.input(2) else "Identity (product)"}
    """
    return Replacement(statements(node, body), "products and a sum")


def _product(left: int, right: int, opset: int, a: str = "x0", b: str = "x1", result: str = "y0") -> str:
    """[..., M, K, 1] times [..., 1, K, N], added over K. A vector is a matrix of one row, or one column, meanwhile."""
    removed = [axis for axis, rank in ((-2, left), (-1, right)) if rank == 1]
    rank = max(left, right, 2)
    return f"""
        {unsqueeze("rows", a, [0] if left == 1 else [], opset)}
        {unsqueeze("columns", b, [1] if right == 1 else [], opset)}
        {unsqueeze("left", "rows", [max(left, 2)], opset)}
        {unsqueeze("right", "columns", [max(right, 2) - 2], opset)}
        terms = Mul (left, right)
        {reduce("ReduceSum", "sums", "terms", [rank - 1], opset, keepdims=False)}
        {squeeze(result, "sums", [rank + axis for axis in removed], opset)}
    """


def _products(node: NodeView) -> int:
    """Terms, as far as sizes are known."""
    left, right = node.shape(0) or (), node.shape(1) or ()
    known = [size or 1 for size in left] + [size or 1 for size in right[-1:] if len(right) > 1]
    return int(np.prod(np.array(known, dtype=object)))


INTEGER_PRODUCTS = NodeRule(
    "integer-products",
    "MatMul, Gemm and Relu of integers",
    ("Gemm", "MatMul", "Relu"),
    _rewrite,
)

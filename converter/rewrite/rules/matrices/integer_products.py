"""Rewrites MatMul, Gemm, Einsum and Relu of int32 and int64, which TensorRT computes for floats only.

A matrix product is written out as elementwise products and a sum, so that it wraps as integers do: M * K * N elements. An
Einsum is so, too: each operand gets a dimension for every letter of the equation, and letters that are not asked for are
summed over.
Quantized products (MatMulInteger and others) have rules of their own, which use float32 where that is exact.
"""

from __future__ import annotations

import math

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer

_INTEGERS = ("int32", "int64", "uint32", "uint64")

LARGEST = 1 << 28
"""Elements of the largest tensor of products that is built: 1 GiB of int32."""


@node_rule("integer-products", "Gemm", "MatMul", "Relu")
def integer_products_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites MatMul, Gemm and Relu of integers."""
    dtype = node.dtype(0)
    if dtype not in _INTEGERS:
        return None
    w = Writer(node)
    if node.op_type == "Relu":
        return Replacement(w.finish(w.Max(w.x[0], np.array(0, dtype))), "Max with 0")
    left, right = node.known_rank(0), node.known_rank(1)
    size = _products(node)
    if size > LARGEST:
        return Refusal(
            f"the product of integers has {size:,} terms",
            f"at most {LARGEST:,} terms",
            "cast the operands to float32, where sums below 2^24 are exact",
        )
    if node.op_type == "MatMul":
        return Replacement(w.finish(_product(w, w.x[0], w.x[1], left, right)), "products and a sum")
    return _gemm(w)


@node_rule("integer-einsum", "Einsum")
def integer_einsum_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Einsum of integers."""
    if node.dtype(0) not in _INTEGERS:
        return None
    equation = "".join(str(node.attributes["equation"]).split())
    given, arrow, wanted = equation.partition("->")
    terms = given.split(",")
    if not arrow:
        wanted = "".join(letter for letter in sorted(set(given) - {","}) if given.count(letter) == 1)
    if "." in equation or any(len(set(term)) < len(term) for term in terms):
        return Refusal(
            f"the equation {equation!r} of integers has dots, or a letter twice in one operand",
            "an equation with each letter once in an operand, and no dots",
            "cast the operands to float32, where sums below 2^24 are exact",
        )
    letters = wanted + "".join(sorted(set(given) - {*wanted, ","}))
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        for letter, size in zip(term, node.shape(index) or (), strict=False):
            sizes[letter] = max(size or 1, sizes.get(letter, 1))
    products = math.prod(sizes.values())
    if products > LARGEST:
        return Refusal(
            f"the product of integers has {products:,} terms",
            f"at most {LARGEST:,} terms",
            "cast the operands to float32, where sums below 2^24 are exact",
        )
    w = Writer(node)
    product: Value | None = None
    for value, term in zip(w.x, terms, strict=True):
        ordered = "".join(sorted(term, key=letters.index))
        turned = value if ordered == term else w.Transpose(value, perm=[term.index(c) for c in ordered])
        spread = w.unsqueeze(turned, [at for at, letter in enumerate(letters) if letter not in term])
        product = spread if product is None else w.Mul(product, spread)
    assert product is not None  # ONNX wants an operand
    summed = list(range(len(wanted), len(letters)))
    result = w.reduce("ReduceSum", product, summed, keepdims=False) if summed else product
    return Replacement(w.finish(result), "products and a sum")


def _gemm(w: Writer) -> Replacement | Refusal:
    node = w.node
    factors = {name: float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta")}
    if any(value != 1 for value in factors.values()):
        return Refusal(
            f"Gemm of integers with alpha {factors['alpha']:g} and beta {factors['beta']:g}",
            "factors of 1",
            "multiply the operands by whole numbers in the model, or cast them to float32",
        )
    a, b = (
        w.Transpose(name, perm=[1, 0]) if node.attributes.get(flag) else name
        for name, flag in ((w.x[0], "transA"), (w.x[1], "transB"))
    )
    product = _product(w, a, b, 2, 2)
    return Replacement(w.finish(w.Add(product, w.x[2]) if node.input(2) else product), "products and a sum")


def _product(w: Writer, a: Value, b: Value, left: int, right: int) -> Value:
    """Multiplies [..., M, K, 1] by [..., 1, K, N] and sums over K. A vector is taken as a matrix of one row or column."""
    removed = [axis for axis, rank in ((-2, left), (-1, right)) if rank == 1]
    rank = max(left, right, 2)
    rows = w.Unsqueeze(w.unsqueeze(a, [0] if left == 1 else []), axes=[max(left, 2)])
    columns = w.Unsqueeze(w.unsqueeze(b, [1] if right == 1 else []), axes=[max(right, 2) - 2])
    sums = w.reduce("ReduceSum", w.Mul(rows, columns), [rank - 1], keepdims=False)
    return w.squeeze(sums, [rank + axis for axis in removed])


def _products(node: NodeView) -> int:
    """The number of scalar products, with unknown sizes taken as 1."""
    left, right = node.shape(0) or (), node.shape(1) or ()
    known = [size or 1 for size in left] + [size or 1 for size in right[-1:] if len(right) > 1]
    return int(np.prod(np.array(known, dtype=object)))

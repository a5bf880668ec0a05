"""Models that the rules integer-products and integer-einsum take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(name: str, dtype: str, left: str, right: str, result: str) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g ({dtype}{left} x, {dtype}{right} z) => ({dtype}{result} y) {{ y = MatMul (x, z) }}""",
    )


def _einsum(name: str, equation: str, inputs: str, result: str) -> Example:
    """inputs: "int32[2, 3] x, ..."."""
    names = ", ".join(part.split()[-1] for part in inputs.split(";"))
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : 12]>
        g ({inputs.replace(";", ",")}) => ({result} y) {{ y = Einsum <equation = "{equation}"> ({names}) }}""",
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "integer-einsum": (
        _einsum("product", "ij, jk -> ik", "int64[2, 3] x; int64[3, 4] z", "int64[2, 4]"),
        _einsum("implicit", "kb,ba", "int32[2, 3] x; int32[3, 4] z", "int32[4, 2]"),
        _einsum("three", "ij,jk,k->ki", "int32[2, 3] x; int32[3, 4] z; int32[4] u", "int32[4, 2]"),
        _einsum("outer", "i,j->ji", "int64[2] x; int64[3] z", "int64[3, 2]"),
        _einsum("everything summed", "ij->", "int32[2, 3] x", "int32"),
        _einsum("turned only", "abc->cab", "int64[2, 3, 4] x", "int64[4, 2, 3]"),
        _einsum("a size of 1", "ij,ij->i", "int64[2, 3] x; int64[1, 3] z", "int64[2]"),
    ),
    "integer-products": (
        _example("stack", "int32", "[2, 3, 4]", "[4, 5]", "[2, 3, 5]"),
        _example("broadcast", "int64", "[3, 4]", "[6, 4, 2]", "[6, 3, 2]"),
        _example("vectors", "int32", "[4]", "[4]", ""),
        _example("row", "int32", "[4]", "[2, 4, 3]", "[2, 3]"),
        _example("column", "int64", "[2, 3, 4]", "[4]", "[2, 3]"),
        Example(
            "gemm",
            """<ir_version: 8, opset_import: ["" : 13]>
            g (int32[4, 2] x, int32[3, 4] z, int32[3] c) => (int32[2, 3] y) {
                y = Gemm <transA = 1, transB = 1> (x, z, c)
            }""",
            reference=True,
        ),
        Example(
            "relu",
            """<ir_version: 8, opset_import: ["" : 14]>
            g (int32[5] x) => (int32[5] y) { y = Relu (x) }""",
            feeds={"x": np.array([-3, 0, 4, -(1 << 31), (1 << 31) - 1], np.int32)},
        ),
    ),
}

"""Models that the rule contrib-matmul takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(name: str, call: str, a: str, b: str, y: str, more: str = "", opset: int = 17) -> Example:
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float[{a}] a, float[{b}] b{more}) => (float[{y}] y) {{ y = com.microsoft.{call} }}""",
        rtol=1e-4,
        atol=1e-5,
    )


_EXAMPLES = (
    _example("factor", "FusedMatMul <alpha = 0.125> (a, b)", "2, 3, 4", "4, 5", "2, 3, 5"),
    _example(
        "both transposed",
        "FusedMatMul <transA = 1, transB = 1, alpha = -2.0> (a, b)",
        "2, 4, 3",
        "2, 5, 4",
        "2, 3, 5",
    ),
    _example(
        "batch of the left operand",
        "FusedMatMul <transBatchA = 1> (a, b)",
        "3, 2, 6, 4",
        "2, 6, 4, 5",
        "2, 6, 3, 5",
    ),
    _example(
        "batches and operands",
        "FusedMatMul <transBatchA = 1, transA = 1, transBatchB = 1, transB = 1> (a, b)",
        "4, 2, 6, 3",
        "5, 2, 6, 4",
        "2, 6, 3, 5",
    ),
    _example("vector", "FusedMatMul <transA = 1, alpha = 3.0> (a, b)", "4", "4, 5", "5"),
    _example("transposed", "TransposeMatMul <transA = 1> (a, b)", "4, 3", "4, 5", "3, 5", opset=12),
    _example(
        "gemm",
        'FusedGemm <alpha = 0.5, beta = 2.0, transB = 1, activation = "LeakyRelu", activation_alpha = 0.3> (a, b, c)',
        "3, 4",
        "5, 4",
        "3, 5",
        ", float[5] c",
    ),
    _example(
        "gemm without a bias", 'FusedGemm <transA = 1, activation = "Relu"> (a, b)', "4, 3", "4, 5", "3, 5"
    ),
)


EXAMPLES = {"contrib-matmul": _EXAMPLES}

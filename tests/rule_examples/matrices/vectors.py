"""Models that the rule vectors takes."""

from __future__ import annotations

from tests.rule_examples.example import Example


def _example(op_type: str, opset: int, attributes: str, result: str) -> Example:
    return Example(
        f"{op_type}-{opset}",
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        g (float[6] x) => ({result} y) {{ y = {op_type} <{attributes}> (x) }}""",
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "vectors": (
        Example(
            "stack",
            """<ir_version: 7, opset_import: ["" : 11]>
            g (float[4] x, float[2, 5, 4, 3] z) => (float[2, 5, 3] y) { y = MatMul (x, z) }""",
        ),
        Example(
            "constant",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[2, 4, 3] z) => (float[2, 3] y) <float[4] x = {1.5, -2, 3, 4}> { y = MatMul (x, z) }""",
        ),
        Example(
            "empty ones",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float[0] x, float[0] z) => (float y) { y = MatMul (x, z) }""",
        ),
        _example("ArgMax", 11, "axis = 0", "int64[1]"),
        _example("ArgMin", 13, "keepdims = 0, select_last_index = 1", "int64"),
        _example("Softmax", 11, "axis = 0", "float[6]"),
        _example("LogSoftmax", 13, "axis = -1", "float[6]"),
        _example("Hardmax", 13, "axis = 0", "float[6]"),
    ),
}

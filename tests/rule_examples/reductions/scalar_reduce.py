"""Models that the rule scalar-reduce takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(op_type: str, opset: int, attributes: str = "", dtype: str = "float") -> Example:
    return Example(
        f"{op_type}-{opset}-{dtype}-{attributes or 'plain'}".replace(" ", ""),
        f"""<ir_version: 7, opset_import: ["" : {opset}]>
        g ({dtype} x) => ({dtype} y) {{ y = {op_type} {attributes and f"<{attributes}>"} (x) }}""",
        feeds={"x": np.array(3, {"float": "float32"}.get(dtype, dtype))},
    )


EXAMPLES = {
    "scalar-reduce": (
        _example("ReduceMean", 18, "keepdims = 0"),
        _example("ReduceMin", 11, "axes = [-1]"),
        _example("ReduceMax", 11, "axes = [0], keepdims = 0", "int64"),
        _example("ReduceSum", 13),
        _example("ReduceProd", 18, dtype="int32"),
        _example("ReduceL1", 18),
        _example("ReduceL2", 13, dtype="float16"),
        _example("ReduceLogSum", 18),
        _example("ReduceLogSumExp", 11),
        _example("ReduceSumSquare", 18, dtype="int64"),
        Example(
            "bool",
            """<ir_version: 9, opset_import: ["" : 20]>
            g (bool x) => (bool y) { y = ReduceMin (x) }""",
            feeds={"x": np.array(True)},
            reference=True,
        ),
    )
}

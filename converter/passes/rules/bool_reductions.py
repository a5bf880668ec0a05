"""ReduceMax and ReduceMin of bools (any and all, from opset 20 on) by counting: TensorRT reduces no bools.

Any: some are true. All: none is false. Of nothing the counts are 0, so that any is false and all is true, as in ONNX.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) != "bool":
        return None
    given = ", ".join(
        f"{name} = {node.attributes[name]}"
        for name in ("keepdims", "noop_with_empty_axes")
        if node.given(name)
    )
    operands = "number, x1" if node.input(1) else "number"
    all_ = node.op_type == "ReduceMin"
    body = f"""
        counted = {"Not" if all_ else "Identity"} (x0)
        number = Cast <to = 6> (counted)
        reduced = ReduceSum {f"<{given}>" if given else ""} ({operands})
        y0 = {"Equal" if all_ else "Greater"} (reduced, zero)
    """
    return Replacement(node.statements(body, zero=np.array(0, np.int32)), "a count in int32")


def _example(op_type: str, shape: str, result: str, name: str) -> Example:
    return Example(
        f"{op_type}-{name}",
        f"""<ir_version: 9, opset_import: ["" : 20]>
        g (bool{shape} x) => (bool{result} y) <int64[1] axes = {{1}}> {{ y = {op_type} (x, axes) }}""",
        feeds={"x": np.arange(12).reshape(3, 2, 2) % 5 < 2} if name == "some" else None,
        reference=name == "none",
    )


BOOL_REDUCTIONS = NodeRule(
    "bool-reductions",
    "ReduceMax and ReduceMin of bools by counting",
    ("ReduceMax", "ReduceMin"),
    _rewrite,
    tuple(
        _example(op_type, shape, result, name)
        for op_type in ("ReduceMax", "ReduceMin")
        for name, shape, result in (("some", "[3, 2, 2]", "[3, 1, 2]"), ("none", "[3, 0, 2]", "[3, 1, 2]"))
    ),
)

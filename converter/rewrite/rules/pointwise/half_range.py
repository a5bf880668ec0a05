"""Computes Range of float16 and bfloat16 in float32, then rounds: TensorRT has it in float32, int32 and int64 only.

So every element is start + i * delta rounded once, where ONNX's definition adds `delta` again and again in the type.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.dtypes import NUMBERS

_TYPES = {name: NUMBERS[name] for name in ("float16", "bfloat16")}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    type_ = _TYPES.get(node.dtype(0) or "")
    if type_ is None:
        return None
    body = f"""
        start = Cast <to = 1> (x0)
        limit = Cast <to = 1> (x1)
        delta = Cast <to = 1> (x2)
        wide = Range (start, limit, delta)
        y0 = Cast <to = {type_}> (wide)
    """
    return Replacement(
        statements(node, body),
        f"Range of {node.dtype(0)} in float32",
        numerics="each element is rounded once, where ONNX adds in the type of the range",
    )


HALF_RANGE = NodeRule(
    "half-range",
    "Range of float16 and bfloat16 in float32",
    ("Range",),
    _rewrite,
)

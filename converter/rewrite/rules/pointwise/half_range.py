"""Computes Range of float16 and bfloat16 in float32, then rounds: TensorRT has it in float32, int32 and int64 only.

So every element is start + i * delta rounded once, where ONNX's definition adds `delta` again and again in the type.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16"):
        return None
    w = Writer(node)
    wide = w.Range(*(w.Cast(end, to="float32") for end in w.x))
    return Replacement(
        w.finish(w.Cast(wide, to=dtype)),
        f"Range of {dtype} in float32",
        numerics="each element is rounded once, where ONNX adds in the type of the range",
    )


HALF_RANGE = NodeRule(
    "half-range",
    "Range of float16 and bfloat16 in float32",
    ("Range",),
    _rewrite,
)

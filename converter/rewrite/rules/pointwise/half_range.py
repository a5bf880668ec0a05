"""Range in float16 and bfloat16, which TensorRT has in float32, int32 and int64 only: in float32, then rounded.

So every element is start + i * delta rounded once, where ONNX's definition adds `delta` again and again in the type.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
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


_EXAMPLES = (
    Example(
        "float16",
        """<ir_version: 10, opset_import: ["" : 27]>
        g (float16[6] x) => (float16[6] y) {
            floats = Constant <value = float[3] {7.0, -3.5, -2.0}> ()
            ends = Cast <to = 10> (floats)
            from, to, step = Split <num_outputs = 3> (ends)
            none = Constant <value = int64[0] {}> ()
            start = Reshape (from, none)
            limit = Reshape (to, none)
            delta = Reshape (step, none)
            r = Range (start, limit, delta)
            y = Mul (x, r)
        }""",
        rtol=1e-3,
        reference=True,
    ),
)

HALF_RANGE = NodeRule(
    "half-range", "Range of float16 and bfloat16 in float32", ("Range",), _rewrite, _EXAMPLES
)

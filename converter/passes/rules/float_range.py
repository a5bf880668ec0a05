"""Range of float16 and bfloat16, which TensorRT has not: counted in float32, as ONNX's own function body does."""

from __future__ import annotations

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement

_HALVES = {"float16": 10, "bfloat16": 16}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = node.dtype(0)
    if dtype not in _HALVES:
        return None
    body = f"""
        start = Cast <to = 1> (x0)
        limit = Cast <to = 1> (x1)
        delta = Cast <to = 1> (x2)
        numbers = Range (start, limit, delta)
        y0 = Cast <to = {_HALVES[dtype]}> (numbers)
    """
    return Replacement(node.statements(body), "a Range in float32")


FLOAT_RANGE = NodeRule(
    "float-range",
    "Range of float16 and bfloat16 in float32",
    ("Range",),
    _rewrite,
    (
        Example(
            "half",
            """<ir_version: 10, opset_import: ["" : 27]>
            g (float16[6] x) => (float16[6] y) <float a = {1}, float b = {-2}, float c = {-0.5}> {
                start = Cast <to = 10> (a)
                limit = Cast <to = 10> (b)
                delta = Cast <to = 10> (c)
                r = Range (start, limit, delta)
                y = Mul (x, r)
            }""",
            reference=True,
        ),
    ),
)

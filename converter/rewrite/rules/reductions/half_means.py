"""Mean and LpNormalization of 16-bit types in float32.

TensorRT-RTX 1.6.1 divides a Mean of float16 by the first half of the float32 number of its operands, whose bits are those
of 0 or of anything else, and squares for an LpNormalization overflow from 256 on (seen on an H200).
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "divides a Mean of float16 by a wrong number, and squares in float16 overflow",
        "an engine run on an H200",
    ),
    Fault(
        "tensorrt",
        ("10.1",),
        "divides a Mean of float16 by a wrong number, and squares in float16 overflow",
        "the source of its ONNX parser: a float32 number is read as float16, and squares are of the input's type",
    ),
)


def _rewrite(node: NodeView) -> Replacement | None:
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16") or node.opset < 7:  # Div that broadcasts
        return None
    w = Writer(node)
    wide = [w.cast(f"x{i}", "float32") for i in range(len(node.inputs))]
    if node.op_type == "Mean":
        total = w.do("Sum", *wide)
        value = w.do("Div", total, w.number(len(wide), "float32"))
    else:
        given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
        value = w.do("LpNormalization", *wide, **given)
    w.cast(value, dtype, result="y0")
    return Replacement(
        w.nodes(), f"in float32, rounded to {dtype}", notes=(node.because(_FAULTS, "float32 is used"),)
    )


def _half(*shape: int, spread: float = 3) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-spread, spread, shape).astype(np.float16)


HALF_MEANS = NodeRule(
    "half-means",
    "Mean and LpNormalization of 16-bit types, in float32",
    ("Mean", "LpNormalization"),
    _rewrite,
    (
        Example(
            "mean",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[4, 6] a, float16[6] b, float16[4, 1] c) => (float16[4, 6] y) { y = Mean (a, b, c) }""",
            feeds={"a": _half(4, 6), "b": _half(6), "c": _half(4, 1)},
            rtol=2e-3,
            atol=1e-3,
        ),
        Example(
            "mean of one",
            '<ir_version: 8, opset_import: ["" : 17]> g (float16[4, 6] a) => (float16[4, 6] y) { y = Mean (a) }',
            feeds={"a": _half(4, 6)},
            rtol=2e-3,
        ),
        Example(
            "unit vectors",
            """<ir_version: 8, opset_import: ["" : 17]>
            g (float16[60, 4] x) => (float16[60, 4] y) { y = LpNormalization <axis = 0> (x) }""",
            feeds={"x": _half(60, 4, spread=300)},
            rtol=4e-3,
            atol=1e-3,
        ),
    ),
    faults=_FAULTS,
)

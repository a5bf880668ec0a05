"""Computes Mean and LpNormalization of 16-bit types in float32.

TensorRT-RTX 1.6.1 divides a Mean of float16 by the first half of the float32 number of its operands, whose bits are those
of 0 or of anything else, and squares for an LpNormalization overflow from 256 on (seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
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


@node_rule("half-means", "Mean", "LpNormalization", faults=_FAULTS)
def half_means_rule(node: NodeView) -> Replacement | None:
    """Computes Mean and LpNormalization of 16-bit types in float32."""
    dtype = node.dtype(0)
    if dtype not in ("float16", "bfloat16") or node.opset < 7:  # Div that broadcasts
        return None
    w = Writer(node)
    wide = [w.Cast(w.x[i], to="float32") for i in range(len(node.inputs))]
    if node.op_type == "Mean":
        value = w.Div(w.Sum(*wide), float(len(wide)))
    else:
        given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
        value = w.LpNormalization(*wide, **given)
    return Replacement(
        w.finish(w.Cast(value, to=dtype)),
        f"in float32, rounded to {dtype}",
        notes=(node.because(_FAULTS, "float32 is used"),),
    )

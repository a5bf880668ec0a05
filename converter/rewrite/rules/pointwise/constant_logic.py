"""Folds Or with a constant True and And with a constant False, for TensorRT-RTX.

TensorRT-RTX 1.6.1 knows that the other operand does not matter, and writes the constant's own elements only: one, where
it stands for all (seen on an H200). The other operand and its opposite give the same, and are computed.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "leaves all but one element of such a result unwritten",
        "an engine run on an H200",
    ),
)


def _rewrite(node: NodeView) -> Replacement | None:
    deciding = node.op_type == "Or"
    for index in range(2):
        constant, rank = node.constant(index), node.rank(1 - index)
        if constant is None or constant.size != 1 or bool(constant.reshape(-1)[0]) is not deciding:
            continue
        if rank is None or rank < constant.ndim:
            continue
        w = Writer(node)
        other = w.x[1 - index]
        return Replacement(
            w.finish(w.write(node.op_type, other, w.Not(other))),
            "the other operand and its opposite",
            notes=(node.because(_FAULTS, "it is computed"),),
        )
    return None


CONSTANT_LOGIC = NodeRule(
    "constant-logic",
    "Or with a constant True, And with a constant False",
    ("Or", "And"),
    _rewrite,
    faults=_FAULTS,
)

"""Rewrites casts of int8 and uint8 to bool, and of uint8 to int8, so that TensorRT-RTX keeps them before another Cast.

TensorRT-RTX 1.6.1 takes the pair for one Cast from the first type to the last: a byte of 200 that is cast to bool and
then to float32 comes out as 200, one that is cast to int8 and then to int32 as 200 (seen on an H200, for every last
type). Of the pairs of all other types it drops only what the type in between rounds away of an integer.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.dtypes import NUMBERS

_TARGETS = {("int8", NUMBERS["bool"]), ("uint8", NUMBERS["bool"]), ("uint8", NUMBERS["int8"])}

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "leaves out the first of two Casts of bytes",
        "an engine run on an H200",
    ),
)


def _rewrite(node: NodeView) -> Replacement | None:
    target = node.attributes.get("to")
    oldest = 7 if target == NUMBERS["bool"] else 9  # Equal that broadcasts, Where
    if (node.dtype(0), target) not in _TARGETS or node.opset < oldest:
        return None
    w = Writer(node)
    wide = w.Cast(w.x[0], to="int32")
    if target == NUMBERS["bool"]:
        result = w.Not(w.Equal(wide, w.number(0, "int32")))
    else:
        above = w.Greater(wide, w.number(127, "int32"))
        result = w.Cast(w.Where(above, w.Sub(wide, w.number(256, "int32")), wide), to="int8")
    return Replacement(
        w.finish(result), "a comparison", notes=(node.because(_FAULTS, "it is written with a comparison"),)
    )


BYTE_CASTS = NodeRule(
    "byte-casts",
    "Casts of int8 and uint8 to bool, and of uint8 to int8",
    ("Cast",),
    _rewrite,
    faults=_FAULTS,
)

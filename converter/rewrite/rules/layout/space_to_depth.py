"""Rewrites SpaceToDepth in the order column, row, depth (CRD) as a transpose.

TensorRT-RTX 1.6.1 computes the order depth, column, row whatever the attribute `mode` says (seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "takes SpaceToDepth's mode CRD for DCR",
        "an engine run on an H200",
    ),
    Fault(
        "tensorrt",
        ("10.1",),
        "takes SpaceToDepth's mode CRD for DCR",
        "the source of its ONNX parser, which reads no attribute mode",
    ),
)


def _rewrite(node: NodeView) -> Replacement | None:
    if node.attributes.get("mode", "DCR") != "CRD":
        return None
    w, block = Writer(node), int(node.attributes["blocksize"])
    side = w.ints(block)
    sizes = [w.size("x0", axis) for axis in range(4)]  # constants are folded
    height, width = (w.do("Div", size, side) for size in sizes[2:])
    split: list[int | str] = [sizes[0], sizes[1], height, block, width, block]
    merged: list[int | str] = [sizes[0], w.do("Mul", sizes[1], w.ints(block * block)), height, width]
    w.reshape(w.transpose(w.reshape("x0", split), [0, 1, 3, 5, 2, 4]), merged, result="y0")
    return Replacement(
        w.nodes(), "a transpose", notes=(node.because(_FAULTS, "it is written with a transpose"),)
    )


SPACE_TO_DEPTH = NodeRule(
    "space-to-depth",
    "SpaceToDepth of mode CRD, which TensorRT takes for DCR",
    ("SpaceToDepth",),
    _rewrite,
    faults=_FAULTS,
)

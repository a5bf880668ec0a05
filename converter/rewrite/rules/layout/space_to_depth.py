"""Rewrites SpaceToDepth in the order column, row, depth (CRD) as a transpose.

TensorRT-RTX 1.6.1 computes the order depth, column, row whatever the attribute `mode` says (seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
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


@node_rule("space-to-depth", "SpaceToDepth", faults=_FAULTS)
def space_to_depth_rule(node: NodeView) -> Replacement | None:
    """Rewrites SpaceToDepth of mode CRD, which TensorRT computes as DCR."""
    if node.attributes.get("mode", "DCR") != "CRD":
        return None
    w, block = Writer(node), int(node.attributes["blocksize"])
    side = [block]
    sizes = [w.size(w.x[0], axis) for axis in range(4)]  # constants are folded
    height, width = (w.Div(size, side) for size in sizes[2:])
    split: list[int | Value] = [sizes[0], sizes[1], height, block, width, block]
    merged: list[int | Value] = [sizes[0], w.Mul(sizes[1], [block * block]), height, width]
    return Replacement(
        w.finish(
            w.Reshape(w.Transpose(w.Reshape(w.x[0], shape=split), perm=[0, 1, 3, 5, 2, 4]), shape=merged)
        ),
        "a transpose",
        notes=(node.because(_FAULTS, "it is written with a transpose"),),
    )

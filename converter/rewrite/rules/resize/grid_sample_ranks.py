"""Keeps TensorRT-RTX from sampling an image in the rank that it had before a Reshape.

TensorRT-RTX 1.6.1 takes other elements where the image of a GridSample is a value of fewer than four axes that a Reshape or
an Unsqueeze gives four, and the result is reshaped to fewer than four again: x.unsqueeze(0) sampled and squeezed, or values
[N, L, C] of attention. Seen on an H200 in float32; elementwise operators in between change nothing. Results that keep four
axes are right, and so are five axes merged and split, and images that a convolution, a Transpose or a reduction computes. So
the image goes through a maximum over an axis of one element.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "samples other elements with GridSample where image and result have fewer than four axes around it",
    "engines of single layers run on an H200",
)

_RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")

_BREAKS = ("Conv", "ConvTranspose", "Pad", "ReduceMax", "ReduceMean", "ReduceSum", "Transpose")
"""Whose results are sampled as they are; of other operators nothing is known."""

_MOST = 64
"""Nodes that are looked at behind an image."""


def _rewrite(node: NodeView) -> Replacement | None:
    if node.rank(0) != 4 or not _had_fewer_axes(node):
        return None
    w = Writer(node)
    image = w.ReduceMax(w.Unsqueeze(w.x[0], axes=[0]), axes=[0], keepdims=0)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    return Replacement(
        w.finish(w.GridSample(image, w.x[1], **given)),
        "the image of GridSample is written by a reduction",
        notes=(node.because((_FAULT,), "the image is written by a reduction"),),
    )


def _had_fewer_axes(node: NodeView) -> bool:
    left, seen = [(node, 0)], 0
    while left and seen < _MOST:
        reader, index = left.pop()
        maker = reader.maker(index)
        seen += 1
        if maker is None or maker.is_a(*_BREAKS):
            continue
        rank = maker.rank(0)
        if maker.is_a(*_RESHAPES) and (rank is None or rank < 4):
            return True
        left += [
            (maker, i) for i in range(len(maker.inputs)) if maker.rank(i) == 4 and not maker.is_constant(i)
        ]
    return False


GRID_SAMPLE_RANKS = NodeRule(
    "grid-sample-ranks",
    "images that a Reshape gives four axes reach GridSample through a reduction",
    ("GridSample",),
    _rewrite,
    faults=(_FAULT,),
)

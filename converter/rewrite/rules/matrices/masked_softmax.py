"""Computes the Softmax of float16 attention in float32 where a mask or bias is added, for TensorRT-RTX."""

from __future__ import annotations

from onnx import TensorProto as T

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.matrices.guarded_softmax import added_mask
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "computes attention in float16 of several hundred keys wrong if a mask is added to its scores",
        "engines run on an H200, of heads of 64 and 768 to 2,048 keys, and of 80 and 128 and 384 to 1,024",
    ),
)

MOST_KEYS = 256
"""Of so many keys all engines were right: of heads of 32, 64, 80 and 128."""

_MOST_MASKS = 4
"""Biases and masks that are added to the scores of one attention."""


@node_rule("masked-softmax", "Softmax", faults=_FAULTS)
def masked_softmax_rule(node: NodeView) -> Replacement | None:
    """Computes a float16 Softmax of masked scores over more than 256 keys in float32, which is as fast."""
    dims = node.dims(0)
    if node.dtype(0) != "float16" or not dims or node.attributes["axis"] not in (-1, len(dims) - 1):
        return None
    if (isinstance(dims[-1], int) and dims[-1] <= MOST_KEYS) or not _is_masked(node):
        return None
    w = Writer(node)
    scores = w.Cast(w.x[0], to=T.FLOAT)
    weights = w.Cast(w.Softmax(scores, axis=-1), to=T.FLOAT16)
    return Replacement(w.finish(weights), "in float32", notes=(node.because(_FAULTS),))


def _is_masked(node: NodeView) -> bool:
    """Whether the first input is a matrix product plus one or a few masks."""
    for _ in range(_MOST_MASKS):
        if added_mask(node) is not None:
            return True
        added = node.maker(0)
        if added is None or not added.is_a("Add"):
            return False
        node = added
    return False

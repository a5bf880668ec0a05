"""Puts a copy between a reduction along a short axis and a reduction of its result, for TensorRT-RTX.

TensorRT-RTX 1.6.1 joins both into one kernel that gives wrong numbers (seen on an H200, in float32 and float16): first a
Softmax, a LayerNormalization or any Reduce along 2 to 6 elements, whose result meets the elements it was made of
(x / |x|, say, and each Softmax by itself), then a reduction along any axes, or a pooling of whole planes. Pointwise
operators in between change nothing, a Gather of all positions along an axis keeps them apart. A size of run time may be as
short; but two Reduces along the same axes, as of a variance, are right then, and are left as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.reductions.reduced_axes import reduced_axes
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.registry import normalise_domain

_REDUCTIONS = tuple(
    f"Reduce{kind}"
    for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_NORMALISATIONS = ("Softmax", "LogSoftmax", "LayerNormalization", "LpNormalization", "RMSNormalization")
_FIRST = frozenset((*_REDUCTIONS, *_NORMALISATIONS))
_POOLINGS = ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")

_LONGEST = 6
"""Elements along an axis that are too few."""

_PASSED_NAMES = """
    Abs Add Cast Ceil Celu Clip Concat Cos Div Dropout Elu Erf Exp Expand Flatten Floor Gelu HardSigmoid HardSwish Identity
    LeakyRelu Log Max Mean Min Mish Mul Neg Pad Pow PRelu Reciprocal Relu Reshape Round Selu Sigmoid Sign Sin Slice Softplus
    Softsign Split Sqrt Squeeze Sub Sum Swish Tanh ThresholdedRelu Tile Transpose Unsqueeze Where
"""
_PASSED = frozenset(_PASSED_NAMES.split())
"""Operators that leave a kernel as it is: pointwise ones, and those that move elements."""

_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "computes reductions wrongly behind one along at most 6 elements",
        "an engine run on an H200",
    ),
)


def _rewrite(node: NodeView) -> Replacement | None:
    first = (name for name, reduced in _above(node, node.input(0)) if reduced)
    makers = (maker for name in first if (maker := node.maker_of(name)) is not None)
    if not any(_is_short(node, maker) and _meets(node, maker) for maker in makers):
        return None
    known = [(axis, size) for axis, size in enumerate(node.shape(0) or ()) if size is not None]
    if not known and node.opset < 11:  # no Range, which makes the positions of a size of run time
        return None
    w = Writer(node)
    copied = _copied(w, *known[0]) if known else _copied(w, 0, None)
    others = [f"x{i}" if name else "" for i, name in enumerate(node.inputs) if i]
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    results = [f"y{i}" if node.used(i) else "" for i in range(len(node.outputs))]
    w.many(node.op_type, [copied, *others], results, **given)
    return Replacement(
        w.nodes(), "a copy ahead of it", notes=(node.because(_FAULTS, "a copy keeps them apart"),)
    )


def _copied(w: Writer, axis: int, size: int | None) -> str:
    """All positions along an axis, gathered."""
    positions = w.arange(w.size("x0", 0)) if size is None else w.const(np.arange(size))
    return w.do("Gather", "x0", positions, axis=axis)


def _above(node: NodeView, name: str) -> Iterator[tuple[str, bool]]:
    """The values that reach this one through operators of _PASSED alone, and whether reductions make them.

    The nearest come first: mostly they decide, and behind them lies all of a network that has shortcuts.
    """
    queue, seen = deque([name] if name else ()), {name, ""}
    while queue:
        name = queue.popleft()
        proto = node.producer_of(name)
        op_type = "" if proto is None or normalise_domain(proto.domain) else proto.op_type
        yield name, op_type in _FIRST
        if proto is not None and op_type in _PASSED:
            for source in proto.input:
                if source not in seen:
                    seen.add(source)
                    queue.append(source)


def _is_short(node: NodeView, maker: NodeView) -> bool:
    """Whether so few elements are reduced, or may be."""
    shape = maker.shape(0)
    if shape == ():
        return False
    axes = _axes(maker, maker.rank(0))
    sizes = [None] if shape is None or axes is None else [shape[axis] for axis in axes]
    count = int(np.prod([size for size in sizes if size is not None], initial=1))
    if None in sizes:
        alike = maker.op_type in _REDUCTIONS and axes is not None and axes == _axes(node, maker.rank(0))
        return count <= _LONGEST and not alike
    return 1 < count <= _LONGEST


def _axes(node: NodeView, rank: int | None) -> list[int] | None:
    """The axes that are reduced, in order, as the model has them if the rank is not known; None where only a run tells."""
    if node.op_type in _REDUCTIONS:
        return reduced_axes(node, rank)
    if rank is None:
        return None
    if node.op_type in _POOLINGS:
        return list(range(2, rank))
    axis = int(node.attributes.get("axis", -1)) % max(rank, 1)
    rest = node.op_type in ("LayerNormalization", "RMSNormalization")
    if node.op_type in ("Softmax", "LogSoftmax"):
        rest = node.version < 13  # it was of all axes from this one on
    return list(range(axis, rank)) if rest else [axis]


def _meets(node: NodeView, maker: NodeView) -> bool:
    """Whether what is reduced goes on beside the result."""
    if maker.op_type in _NORMALISATIONS:
        return True
    walks = [_above(node, node.input(0)), _above(node, maker.input(0))]
    seen: tuple[set[str], set[str]] = set(), set()
    for step in zip_longest(*walks):
        for walked, mine, other in zip(step, seen, seen[::-1], strict=True):
            if walked is not None:
                mine.add(walked[0])
                if walked[0] in other and not node.is_constant_value(walked[0]):
                    return True
    return False


SHORT_REDUCTIONS = NodeRule(
    "short-reductions",
    "reductions behind one along 2 to 6 elements",
    (*_REDUCTIONS, *_NORMALISATIONS, *_POOLINGS),
    _rewrite,
    faults=_FAULTS,
)

"""Inserts a copy between a reduction along a short axis and a reduction of its result, for TensorRT-RTX.

TensorRT-RTX 1.6.1 joins both into one kernel that gives wrong numbers (seen on an H200, in float32 and float16): first a
Softmax, a LayerNormalization or any Reduce along 2 to 6 elements, whose result meets the elements it was made of
(x / |x|, say, and each Softmax by itself), then a reduction along any axes, or a pooling of whole planes. Or a Reduce of the
first one's result, where both results meet: ConvNeXt V2 divides norms of planes by their mean, and had NaN for 2x2.
Pointwise operators in between change nothing, a Gather of all positions along an axis keeps them apart. A size of run time
may be as short; but two Reduces along the same axes, as of a variance, are right then, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.operator_groups import REDUCTIONS
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.reductions.reduced_axes import reduced_axes
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.registry import normalise_domain

_NORMALISATIONS = ("Softmax", "LogSoftmax", "LayerNormalization", "LpNormalization", "RMSNormalization")
_FIRST = frozenset((*REDUCTIONS, *_NORMALISATIONS))
_POOLINGS = ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")

_LONGEST = 6
"""Elements along an axis that are too few."""

_FARTHEST = 8
"""Results that are looked at, on the way from a Reduce to where it meets what it reduced."""

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


@node_rule("short-reductions", *REDUCTIONS, *_NORMALISATIONS, *_POOLINGS, faults=_FAULTS)
def short_reductions_rule(node: NodeView) -> Replacement | None:
    """Inserts a copy before reductions behind one along 2 to 6 elements."""
    ancestry = node.derived(_Ancestry)
    if not any(_is_short(node, maker) for maker in chain(ancestry.met(node), ancestry.met_behind(node))):
        return None
    known = [(axis, size) for axis, size in enumerate(node.shape(0) or ()) if size is not None]
    if not known and node.opset < 11:  # no Range, which makes the positions of a size of run time
        return None
    w = Writer(node)
    copied = _copied(w, *known[0]) if known else _copied(w, 0, None)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    used = [node.used(i) for i in range(len(node.outputs))]
    results = w.write(node.op_type, copied, *w.x[1:], outputs=used, **given)
    return Replacement(
        w.finish(*results), "a copy ahead of it", notes=(node.because(_FAULTS, "a copy keeps them apart"),)
    )


def _copied(w: Writer, axis: int, size: int | None) -> Value:
    """Gathers all positions along an axis, which copies the input."""
    positions = w.arange(w.size(w.x[0], 0)) if size is None else w.constant(w.numbers(size))
    return w.Gather(w.x[0], positions, axis=axis)


def _is_short(node: NodeView, maker: _Maker) -> bool:
    """Whether the maker reduces so few elements, or may with sizes of run time."""
    if maker.fixed:
        return True
    return not (
        maker.view.op_type in REDUCTIONS and maker.axes is not None and maker.axes == _axes(node, maker.rank)
    )


def _axes(node: NodeView, rank: int | None) -> list[int] | None:
    """The reduced axes in order, as in the model for an unknown rank. None if they are known only at run time."""
    if node.op_type in REDUCTIONS:
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


@dataclass(frozen=True)
class _Maker:
    """A reduction of 2 to 6 elements, or of an unknown number. fixed: whether the number is known. axes, rank: what it
    reduces.
    """

    view: NodeView
    fixed: bool
    axes: list[int] | None
    rank: int | None


def _short(maker: NodeView) -> _Maker | None:
    shape = maker.shape(0)
    if shape == ():
        return None
    axes = _axes(maker, maker.rank(0))
    sizes = [None] if shape is None or axes is None else [shape[axis] for axis in axes]
    count = int(np.prod([size for size in sizes if size is not None], initial=1))
    if count > _LONGEST or (count <= 1 and None not in sizes):
        return None
    return _Maker(maker, None not in sizes, axes, maker.rank(0))


class _Ancestry:
    """Tracks which values depend on which others through operators in _PASSED alone.

    A value's ancestry is a set of bits, one for each value that no such operator makes and that is no constant: two
    values have such an ancestor in common if they have a bit in common. A network with shortcuts has all of it above
    each of its values; it is walked once.
    """

    def __init__(self, graph: Graph) -> None:
        self._bits: dict[tuple[Scope | None, str], int] = {}
        self._count = 0
        self._makers: dict[int, _Maker] = {}  # by the number of the bit
        self._mask = 0  # bits of _makers

    def met(self, node: NodeView) -> Iterator[_Maker]:
        """The short reductions from which the node's input is computed together with their own input.

        The result of a normalisation is made of its input element for element.
        """
        above = self._above(node, node.input(0))
        for _, maker in self._short_ones(above):
            view = maker.view
            if view.op_type in _NORMALISATIONS or above & self._above(view, view.input(0)):
                yield maker

    def met_behind(self, node: NodeView) -> Iterator[_Maker]:
        """The short reductions that feed a Reduce and meet its result again in a pointwise operator."""
        if node.op_type not in REDUCTIONS:
            return
        for bit, maker in self._short_ones(self._above(node, node.input(0))):
            if self._meets(node, bit):
                yield maker

    def _meets(self, node: NodeView, bit: int) -> bool:
        """Whether the node's result meets a value of this ancestry within a few pointwise operators."""
        results = [node]
        for view in islice(results, _FARTHEST):  # which grows
            for reader in view.readers(0):
                if reader is None or normalise_domain(reader.domain) or reader.op_type not in _PASSED:
                    continue
                others = [name for name in reader.input if name and name != view.output(0)]
                if any(self._above(node, name) & bit for name in others):
                    return True
                behind = node.maker_of(reader.output[0])
                results += [behind] if behind is not None else []
        return False

    def _short_ones(self, above: int) -> Iterator[tuple[int, _Maker]]:
        """The short reductions of an ancestry, each with its bit."""
        left = above & self._mask
        while left:
            lowest = left & -left
            left ^= lowest
            yield lowest, self._makers[lowest.bit_length() - 1]

    def _above(self, node: NodeView, name: str) -> int:
        """The ancestry of a value in scope."""
        stack = [name] if name else []
        while stack:
            value = stack[-1]
            key = node.place(value)
            if key in self._bits:
                stack.pop()
                continue
            proto = node.producer_of(value)
            op_type = "" if proto is None or normalise_domain(proto.domain) else proto.op_type
            sources = list(filter(None, proto.input)) if proto is not None and op_type in _PASSED else []
            missing = [source for source in sources if node.place(source) not in self._bits]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._bits[key] = self._of(node, value, op_type, sources)
        return self._bits[node.place(name)] if name else 0

    def _of(self, node: NodeView, value: str, op_type: str, sources: Sequence[str]) -> int:
        bits = 0
        for source in sources:
            more = self._bits[node.place(source)]
            if more & ~bits:
                # Most have one ancestry that has the others: one number.
                bits = bits | more if bits & ~more else more
        if bits or node.is_constant_value(value):
            return bits
        if (
            op_type in _FIRST
            and (view := node.maker_of(value)) is not None
            and (maker := _short(view)) is not None
        ):
            self._makers[self._count] = maker
            self._mask |= 1 << self._count
        self._count += 1
        return 1 << (self._count - 1)

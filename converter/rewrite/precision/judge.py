"""Judges each node alone: must stay in float32, gains from a reduced type, or follows its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.operator_groups import op_types
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.native_operators import asked_table
from trtsmith.converter.rewrite.precision.constants import unfit
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.fused_attention import Attention, find_attention
from trtsmith.converter.rewrite.precision.policy import (
    ANGLE,
    CHAINS_GO_THROUGH,
    FIXED,
    GEOMETRY,
    HEAVY,
    INTERFACES,
    POSITION_DIGITS,
    POSITION_PIXELS,
    POSITIONS,
    QUOTIENT,
    ROOT,
    SENSITIVE,
)
from trtsmith.converter.rewrite.precision.ports import Ports, described
from trtsmith.converter.rewrite.precision.sums import LONG_SUM, products, sums_more_than
from trtsmith.converter.rewrite.types.legal_types import INTEGERS
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name

INDEX = "its result becomes an index"
POSITION = "its result becomes a position to read at"

_INTEGERS = frozenset(
    {T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64, T.INT4, T.UINT4}
)


def sums_few(node: Node) -> bool:
    """Tells whether the node multiplies small matrices, such as those of cameras and rotations."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain:
        return False
    count = products(node)
    return count is not None and count <= GEOMETRY


def chains(order: Iterable[Node], nodes: Mapping[Node, Ports]) -> dict[Node, str]:
    """Finds nodes that compute indices, positions or angles, with the kind; one pass over all nodes.

    order: all nodes. nodes: those that have ports of a changeable type.
    """
    marked: dict[Node, str] = {}
    for start, reason in _ends(order):
        queue = [start]
        while queue:
            scope, name = queue.pop()
            holder = scope.holder(name)
            node = holder.producers.get(name) if holder is not None else None
            if node is None or node in marked or node not in nodes or not _goes_through(node):
                continue
            marked[node] = reason
            read = (*nodes[node].inputs, *((0,) if node.op_type == "DequantizeLinear" else ()))
            queue.extend((node.scope, node.inputs[i]) for i in read)
    return marked


def _goes_through(node: Node) -> bool:
    return (
        not node.domain
        and node.op_type in CHAINS_GO_THROUGH
        and (node.op_type not in HEAVY or sums_few(node))
    )


def _ends(nodes: Iterable[Node]) -> Iterator[tuple[tuple[Scope, str], str]]:
    """The values at which chains end."""
    for node in nodes:
        for index, reason in _sensitive_inputs(node):
            if index < len(node.inputs) and node.inputs[index]:
                yield (node.scope, node.inputs[index]), reason


def _sensitive_inputs(node: Node) -> Iterator[tuple[int, str]]:
    if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
        for index, port in enumerate(by_name()[node.op_type].inputs):
            if port.positions:
                yield index, POSITION
    elif node.domain:
        return
    elif node.op_type == "Cast" and _target(node.proto) in _INTEGERS:
        yield 0, INDEX
    elif node.op_type in ("Sin", "Cos"):
        yield 0, ANGLE
    elif node.op_type == "Range":
        yield from ((index, INDEX) for index in range(3))
    else:
        yield from ((index, POSITION) for index in POSITIONS.get(node.op_type, ()))


def reads_positions(node: Node) -> bool:
    """Tells whether the node samples at positions that have its compute type."""
    if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
        op = by_name()[node.op_type]
        return any(port.positions and port.type == op.key for port in op.inputs)
    return any(reason == POSITION for _, reason in _sensitive_inputs(node))


def _samples_large_image(node: Node) -> bool:
    """Whether it reads an image that is known to be larger than POSITION_PIXELS."""
    dims = node.scope.dims(node.inputs[0]) if node.op_type == "GridSample" else None
    return any(isinstance(size, int) and size > POSITION_PIXELS for size in (dims or ())[2:])


def _target(proto: onnx.NodeProto) -> int:
    return next((int(a.i) for a in proto.attribute if a.name == "to"), 0)


WHOLE_SUM = "it adds up products of whole numbers, exactly in float32"

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})

_STAY_WHOLE = frozenset(
    {
        *op_types("Add Cast Clip Concat Expand Flatten Gather Identity Max Min Mul Neg Pad"),
        *("Reshape", "ReverseSequence", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
    }
)
"""Operators that make whole numbers of whole numbers."""

_LONGEST = 12
"""Nodes between the rounding and the product: rules write no more than eight."""


def sums_whole_numbers(node: Node) -> bool:
    """Tells whether the node multiplies whole numbers (rounded, or integers) by a constant of whole numbers."""
    if node.domain or node.op_type not in _PRODUCTS or len(node.inputs) < 2:
        return False
    if not node.scope.is_constant(node.inputs[1]):
        return False
    return _is_whole(node.scope, node.inputs[0], _LONGEST) and _constant_whole(node.scope, node.inputs[1])


def _is_whole(scope: Scope, name: str, left: int) -> bool:
    if scope.is_constant(name):
        return _constant_whole(scope, name)
    holder = scope.holder(name)
    maker = holder.producers.get(name) if holder is not None else None
    if holder is None or maker is None or maker.domain or not left:
        return False
    if maker.op_type == "Round" or (
        maker.op_type == "Cast" and holder.elem_type(maker.inputs[0]) in INTEGERS
    ):
        return True
    if maker.op_type not in _STAY_WHOLE:
        return False
    read = maker.inputs if maker.op_type in _OF_ALL else maker.inputs[:1]
    return all(_is_whole(holder, one, left - 1) for one in read if one)


_OF_ALL = frozenset({"Add", "Concat", "Max", "Min", "Mul", "Sub"})
"""Those whose result is of the numbers of every input."""


def _constant_whole(scope: Scope, name: str) -> bool:
    array = scope.constant(name)
    return array is not None and array.dtype.kind == "f" and bool((array == array.round()).all())


def refusal(op_type: str, fmt: Format) -> str:
    """Returns "" if TensorRT builds the operator in the type, else why it is left in float32."""
    entry = asked_table("precision/measured_types.json")["operators"].get(op_type)
    if entry is None:
        return f"no {fmt.name} of it was measured in TensorRT"
    return f"TensorRT does not build it in {fmt.name}" if entry[fmt.name] else ""


_CUBE = 3.0

_CENTRED = frozenset({"Abs", "Pow", "Sub"})
"""Operators whose results a norm takes the mean of."""

_SPREAD = frozenset({"Add", "Div", "Log", "Pow", "Reciprocal", "Sqrt", "Sub"})
"""Operators that read a norm's mean."""


def pools(node: Node) -> bool:
    """Tells whether the node averages activations and is not part of a norm.

    TensorRT sums it in float32, whatever its type: the error of its means is that of rounding them, up to 65,536 elements of
    a mean of 1,000 (seen on an H200).
    """
    if node.domain or node.op_type not in ("GlobalAveragePool", "ReduceMean"):
        return False
    maker = node.scope.maker(node.inputs[0])
    squares = maker is not None and maker.op_type == "Mul" and len(set(maker.inputs)) == 1
    if squares or (maker is not None and maker.op_type in _CENTRED):
        return False
    return not any(reader.op_type in _SPREAD for reader in node.scope.whole.readers_of(node.outputs[0]))


class Wish(Enum):
    """The compute type that a node should have."""

    FULL = "float32"
    REDUCED = "reduced"
    EITHER = "either"


@dataclass(frozen=True)
class Judgement:
    """The judgement on a node. reason: why float32; "" where nothing needs to be said."""

    wish: Wish
    reason: str = ""


@dataclass
class Judge:
    """Judges nodes for one format.

    asked:  by node name, the user's flag that keeps it in float32.
    seen:   by value name (of the outermost graph), the largest magnitude in the float32 run.
    limit:  what magnitudes of `seen` must not exceed.
    final:  whether `asked` is all that stays in float32: nothing else is looked at.
    trusts: whether nothing else stays in float32 for the sake of accuracy: only what TensorRT does not build in the type,
        and numbers that have to be exact.
    longest: how many products a reduced node may sum; None: any number.
    wide:   by node name, why its sum must be of float32, however many products it has.
    zeros:  whether values that the type has zero for may be that: outputs are to be looked at.
    """

    fmt: Format
    asked: Mapping[str, str]
    seen: Mapping[str, float]
    limit: float
    final: bool = False
    trusts: bool = False
    longest: int | None = None
    wide: Mapping[str, str] = field(default_factory=dict)
    zeros: bool = False
    _unfit: dict[tuple[Scope, str], str] = field(default_factory=dict)
    _attention: Attention = field(default_factory=Attention)

    def judge(self, order: Sequence[Node], nodes: Mapping[Node, Ports]) -> dict[Node, Judgement]:
        """Judges each node of `order` that has ports of a changeable type."""
        marked = chains(order, nodes)
        free = (node for node in order if node.proto.name not in self.asked)
        self._attention = find_attention(free, self.fmt, self._is_score)
        return {node: self._judge(node, ports, marked.get(node, "")) for node, ports in nodes.items()}

    def _judge(self, node: Node, ports: Ports, chain: str) -> Judgement:
        asked = self.asked.get(node.proto.name, "")
        if asked:
            return Judgement(Wish.FULL, asked)
        if node.op_type in FIXED and not node.domain:
            return Judgement(Wish.FULL)
        if reason := self._reason(node, ports, chain):
            return Judgement(Wish.FULL, reason)
        heavy = node.domain == PLUGIN_NAMESPACE or (node.op_type in HEAVY and not sums_few(node))
        heavy = heavy or node in self._attention.softmax
        return Judgement(Wish.REDUCED if heavy else Wish.EITHER)

    def _reason(self, node: Node, ports: Ports, chain: str) -> str:
        """Why the node stays in float32; "" if it need not."""
        if self.final:
            return ""
        accurate = "" if self.trusts else self._nature(node)
        reason = _exact(node) or accurate or chain or refused(node, self.fmt)
        return reason if self.trusts else reason or self._range(node, ports) or self._constants(node, ports)

    def _nature(self, node: Node) -> str:
        if node in self._attention.softmax:
            return ""
        if node.op_type in SENSITIVE and not pools(node) and not self._cubes(node):
            return SENSITIVE[node.op_type]
        if node.op_type == "Div" and not node.scope.is_constant(node.inputs[1]):
            return QUOTIENT
        if self.longest is not None and sums_more_than(node, self.longest):
            return LONG_SUM
        if node.proto.name in self.wide:
            return self.wide[node.proto.name]
        if reads_positions(node) and self.fmt.digits < POSITION_DIGITS + _samples_large_image(node):
            return f"{self.fmt.name} has too few digits for the positions that it reads at"
        return ""

    def _cubes(self, node: Node) -> bool:
        """Whether the node computes third powers, as GELU does by a tanh, and they were seen to be in range."""
        power = node.scope.constant(node.inputs[1]) if node.op_type == "Pow" else None
        cube = power is not None and power.size == 1 and float(power.reshape(())) == _CUBE
        return cube and node.scope.outer is None and node.outputs[0] in self.seen

    def _range(self, node: Node, ports: Ports) -> str:
        if node.scope.outer is not None:  # the float32 run tells of the outermost graph's values
            return ""
        values = (*(node.inputs[i] for i in ports.inputs), *(node.outputs[i] for i in ports.outputs))
        for name in values:
            size = self.seen.get(name)
            if size is None or (node.scope.holder(name), name) in self._attention.masked:
                continue
            if size > self.limit:
                end = (
                    f"{self.fmt.name} ends at"
                    if size > self.fmt.largest
                    else f"too near to {self.fmt.name}'s"
                )
                return f"{name!r} reached {size:.3g} on the inputs; {end} {self.fmt.largest:.5g}"
            if 0 < size < self.fmt.smallest and not self.zeros:
                return f"{name!r} stayed below {size:.2g} on the inputs: {self.fmt.name} has zero for that"
        return ""

    def _constants(self, node: Node, ports: Ports) -> str:
        for index in ports.inputs:
            name = node.inputs[index]
            if not node.scope.is_constant(name) or (node.scope.holder(name), name) in self._attention.masked:
                continue
            reason = self._unfit_constant(node.scope, name)
            if reason and not self._lost_in_sum(node, index):
                return f"constant {name!r}: {reason}"
        return ""

    def _unfit_constant(self, scope: Scope, name: str) -> str:
        """Why its numbers cannot be of the type; each constant is looked at once."""
        holder = scope.holder(name)
        assert holder is not None  # it is a constant
        if (holder, name) not in self._unfit:
            values = scope.constant(name)
            self._unfit[holder, name] = "" if values is None else unfit(np.asarray(values), self.fmt)
        return self._unfit[holder, name]

    def _is_score(self, scope: Scope, name: str) -> bool:
        """Whether a value may be part of an attention's scores: in range, and no input of the model that nobody has seen."""
        if self.final or self.trusts or scope.elem_type(name) != T.FLOAT:
            return True
        if scope.is_constant(name):
            return not self._unfit_constant(scope, name)
        size = self.seen.get(name) if scope.outer is None else None
        return size <= self.limit if size is not None else name not in scope.whole.root.inputs

    def _lost_in_sum(self, node: Node, index: int) -> bool:
        """Whether the input is added to values so large that what rounding takes from it is beyond their last digit.

        A learned bias of 1e-5 beside activations of 1 is such an addend, and so is a layer by a scale of 1e-5; the epsilon
        beside a variance is not, nor one that keeps a divisor from zero: elements that are large say nothing of those that
        are zero.
        """
        if node.domain:
            return False
        if node.op_type == "Mul":
            values, readers = (
                node.scope.constant(node.inputs[index]),
                node.scope.whole.readers_of(node.outputs[0]),
            )
            small = values is not None and bool(np.abs(values).max() < self.fmt.normal)
            sums = [reader.op_type in ("Add", "Sub") and self._is_large(reader) for reader in readers]
            return small and bool(sums) and all(sums) and node.outputs[0] not in node.scope.results
        biased = node.op_type in ("Conv", "ConvTranspose", "Gemm") and index == 2
        return (biased or node.op_type in ("Add", "Sub")) and self._is_large(node)

    def _is_large(self, node: Node) -> bool:
        """Whether the last digit of the node's result is above what is below the range of normal numbers."""
        result = node.outputs[0]
        if any(_must_not_be_zero(reader, result) for reader in node.scope.whole.readers_of(result)):
            return False
        size = self.seen.get(result, 0.0) if node.scope.outer is None else 0.0
        return self.limit >= size > self.fmt.normal * 2.0**self.fmt.digits


def _must_not_be_zero(node: Node, name: str) -> bool:
    """Whether the value is a divisor of the node, or what it takes a root or a logarithm of."""
    divides = node.op_type == "Div" and node.inputs[1] == name
    return not node.domain and (divides or SENSITIVE.get(node.op_type) in (QUOTIENT, ROOT))


def _exact(node: Node) -> str:
    """Why rounding would break the node's result; "" of most nodes."""
    if node.domain == PLUGIN_NAMESPACE:
        return by_name()[node.op_type].float32_only
    return WHOLE_SUM if sums_whole_numbers(node) else ""


def refused(node: Node, fmt: Format) -> str:
    """Says why the node cannot have the type at all; "" if it can. Plugins decide by their ports."""
    return "" if node.domain == PLUGIN_NAMESPACE else refusal(node.op_type, fmt)


def foreign(node: Node) -> str:
    """Says why the types of a node are unknown; "" for ONNX's operators and trtsmith's."""
    if described(node) or node.op_type in INTERFACES:
        return ""
    return "an operator whose types trtsmith does not know"

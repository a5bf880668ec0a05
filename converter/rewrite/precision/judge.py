"""Judges each node alone: must stay in float32, gains from a reduced type, or follows its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.precision.chains import chains, reads_positions, sums_few
from trtsmith.converter.rewrite.precision.constants import unfit
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.measured import refusal
from trtsmith.converter.rewrite.precision.policy import (
    FIXED,
    HEAVY,
    INTERFACES,
    POSITION_DIGITS,
    QUOTIENT,
    SENSITIVE,
)
from trtsmith.converter.rewrite.precision.ports import Ports, described
from trtsmith.converter.rewrite.precision.sums import LONG_SUM, sums_more_than
from trtsmith.converter.rewrite.precision.whole_sums import WHOLE_SUM, sums_whole_numbers
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name


class Wish(Enum):
    """What a node is to be computed in."""

    FULL = "float32"
    REDUCED = "reduced"
    EITHER = "either"


@dataclass(frozen=True)
class Judgement:
    """reason: why float32; "" where nothing needs to be said."""

    wish: Wish
    reason: str = ""


@dataclass
class Judge:
    """Judges nodes for one format.

    asked:  by node name, the user's flag that keeps it in float32.
    seen:   by value name (of the outermost graph), the largest magnitude in the float32 run.
    limit:  what magnitudes of `seen` must not exceed.
    final:  whether `asked` is all that stays in float32: nothing else is looked at.
    longest: how many products a reduced node may sum; None: any number.
    wide:   by node name, why its sum must be of float32, however many products it has.
    """

    fmt: Format
    asked: Mapping[str, str]
    seen: Mapping[str, float]
    limit: float
    final: bool = False
    longest: int | None = None
    wide: Mapping[str, str] = field(default_factory=dict)
    _unfit: dict[tuple[Scope, str], str] = field(default_factory=dict)

    def judge(self, order: Sequence[Node], nodes: Mapping[Node, Ports]) -> dict[Node, Judgement]:
        """Every node that has ports of a changeable type, of all nodes in `order`."""
        marked = chains(order, nodes)
        return {node: self._judge(node, ports, marked.get(node, "")) for node, ports in nodes.items()}

    def _judge(self, node: Node, ports: Ports, chain: str) -> Judgement:
        asked = self.asked.get(node.proto.name, "")
        if asked:
            return Judgement(Wish.FULL, asked)
        if node.op_type in FIXED and not node.domain:
            return Judgement(Wish.FULL)
        reason = (
            ""
            if self.final
            else (
                self._nature(node)
                or chain
                or refused(node, self.fmt)
                or self._range(node, ports)
                or self._constants(node, ports)
            )
        )
        if reason:
            return Judgement(Wish.FULL, reason)
        heavy = node.domain == PLUGIN_NAMESPACE or (node.op_type in HEAVY and not sums_few(node))
        return Judgement(Wish.REDUCED if heavy else Wish.EITHER)

    def _nature(self, node: Node) -> str:
        if node.domain == PLUGIN_NAMESPACE:
            kept = by_name()[node.op_type].float32_only
            if kept:
                return kept
        elif node.op_type in SENSITIVE:
            return SENSITIVE[node.op_type]
        elif node.op_type == "Div" and not node.scope.is_constant(node.inputs[1]):
            return QUOTIENT
        elif sums_whole_numbers(node):
            return WHOLE_SUM
        elif self.longest is not None and sums_more_than(node, self.longest):
            return LONG_SUM
        elif node.proto.name in self.wide:
            return self.wide[node.proto.name]
        if self.fmt.digits < POSITION_DIGITS and reads_positions(node):
            return f"{self.fmt.name} has too few digits for the positions that it reads at"
        return ""

    def _range(self, node: Node, ports: Ports) -> str:
        if node.scope.outer is not None:  # the float32 run tells of the outermost graph's values
            return ""
        values = (*(node.inputs[i] for i in ports.inputs), *(node.outputs[i] for i in ports.outputs))
        for name in values:
            size = self.seen.get(name)
            if size is None:
                continue
            if size > self.limit:
                return f"{name!r} reached {size:.3g} on the inputs; {self.fmt.name} ends at {self.fmt.largest:.5g}"
            if 0 < size < self.fmt.smallest:
                return f"{name!r} stayed below {size:.2g} on the inputs: {self.fmt.name} has zero for that"
        return ""

    def _constants(self, node: Node, ports: Ports) -> str:
        for index in ports.inputs:
            name = node.inputs[index]
            if not node.scope.is_constant(name) or self._lost_in_sum(node, index):
                continue
            holder = node.scope.holder(name)
            assert holder is not None  # it is a constant
            if (holder, name) not in self._unfit:
                values = node.scope.constant(name)
                self._unfit[holder, name] = "" if values is None else unfit(np.asarray(values), self.fmt)
            if self._unfit[holder, name]:
                return f"constant {name!r}: {self._unfit[holder, name]}"
        return ""

    def _lost_in_sum(self, node: Node, index: int) -> bool:
        """Whether the input is added to values so large that what rounding takes from it is beyond their last digit.

        A learned bias of 1e-5 beside activations of 1 is such an addend; the epsilon beside a variance is not.
        """
        addend = node.op_type in ("Add", "Sub") or (
            node.op_type in ("Conv", "ConvTranspose", "Gemm") and index == 2
        )
        size = self.seen.get(node.outputs[0], 0.0) if node.scope.outer is None else 0.0
        return addend and not node.domain and self.limit >= size > self.fmt.normal * 2**self.fmt.digits


def refused(node: Node, fmt: Format) -> str:
    """Why the node cannot be in the type at all; "" if it can. Of our plugins, their ports say so."""
    return "" if node.domain == PLUGIN_NAMESPACE else refusal(node.op_type, fmt)


def foreign(node: Node) -> str:
    """Why nothing is known of a node's types; "" for ONNX's operators and ours."""
    if described(node) or node.op_type in INTERFACES:
        return ""
    return "an operator whose types trtsmith does not know"

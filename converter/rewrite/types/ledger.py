"""What the types pass did: one record for each node, and the inputs and outputs that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto as T

from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.types.io_types import IoType
from trtsmith.converter.rewrite.types.legal_types import CARRIERS, carrier, dtype_name
from trtsmith.converter.rewrite.types.names import Names
from trtsmith.converter.rewrite.types.operators import IN_FLOAT
from trtsmith.importers.registry import normalise_domain

NAME = "types"

FLOAT64 = "float64 is computed in float32: 7 digits instead of 16, and infinite from 3.4e38 on"

_LOSSES: Mapping[tuple[int, str], str] = {
    **{
        (T.UINT64, op): "uint64 is read as int64: right for numbers below 2**63"
        for op in ("Pow", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
    },
    **{
        (elem, op): "integers are computed in float32: exact up to 2**24"
        for elem in (T.UINT32, T.UINT64)
        for op in IN_FLOAT
    },
}
"""By type and operator, what may differ from ONNX; whole numbers are exact otherwise."""


class Ledger:
    """`changed`: whether anything about the model did."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.rewrites: list[Rewrite] = []
        self.io_types: list[IoType] = []
        self.changed = False
        self._told_float64 = False

    def io(self, name: str, elem: int) -> None:
        """An input or output of the ONNX type `elem` has its carrier's type now."""
        if all(io.name != name for io in self.io_types):
            self.io_types.append(IoType(name, dtype_name(elem), dtype_name(carrier(elem))))

    def record(self, node: onnx.NodeProto, what: str, made: list[onnx.NodeProto], elem: int) -> None:
        name = node.name
        if not name or self.names.nodes[name] > 1:
            name = self.names.node(name or next((n for n in node.output if n), node.op_type))
        for new in made:
            new.name = name if len(made) == 1 else self.names.node(f"{name}/{new.op_type}")
        numerics = [_LOSSES[elem, kind] for kind in (node.op_type,) if (elem, kind) in _LOSSES]
        if not self._told_float64 and "float64" in what:
            self._told_float64 = True
            numerics.append(f"{FLOAT64}; here, and in every other node of that type")
        shown = "::".join(part for part in (normalise_domain(node.domain), node.op_type) if part)
        self.rewrites.append(
            Rewrite(name, shown, NAME, what, numerics=tuple(numerics), made=tuple(n.name for n in made))
        )


def what_changed(elems: Sequence[int]) -> str:
    """As "uint16 in int32"."""
    if not elems:
        return "in carriers of its types"
    counted = Counter(elems)
    return ", ".join(
        f"{dtype_name(e)} in {dtype_name(carrier(e)) if e in CARRIERS else 'int32'}" for e in counted
    )

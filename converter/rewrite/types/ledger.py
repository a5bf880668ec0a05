"""Records the changes of the types pass: one record for each node, and the changed inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.node import Node
from trtsmith.converter.rewrite.engine.records import Rewrite
from trtsmith.converter.rewrite.types.io_types import IoType
from trtsmith.converter.rewrite.types.legal_types import ILLEGAL_TYPES, legal_type
from trtsmith.converter.rewrite.types.operators import IN_FLOAT
from trtsmith.importers.dtypes import dtype_name

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
    """Collects these records. `changed`: whether anything about the model changed."""

    def __init__(self, whole: Graph) -> None:
        self._whole = whole
        self.rewrites: list[Rewrite] = []
        self.io_types: dict[str, IoType] = {}
        self.changed = False
        self._told_float64 = False

    def io(self, name: str, elem: int) -> None:
        """Records that an input or output of ONNX type `elem` now has its legal type."""
        self.io_types.setdefault(name, IoType(name, dtype_name(elem), dtype_name(legal_type(elem))))

    def record(self, node: Node, label: str, what: str, made: list[Node | onnx.NodeProto], elem: int) -> None:
        """Records a node. label: its name if it has none of its own. made: its replacements, which get names."""
        names = self._whole.names
        name = node.name
        if not name or names.nodes_called(name) > 1:
            name = names.node(label)
        called = []
        for new in made:
            called.append(name if len(made) == 1 else names.node(f"{name}/{new.op_type}"))
            if isinstance(new, Node):
                new.rename(called[-1])
            else:
                new.name = called[-1]
        numerics = [_LOSSES[elem, kind] for kind in (node.op_type,) if (elem, kind) in _LOSSES]
        if not self._told_float64 and "float64" in what:
            self._told_float64 = True
            numerics.append(f"{FLOAT64}; here, and in every other node of that type")
        shown = "::".join(part for part in node.kind if part)
        self.rewrites.append(Rewrite(name, shown, NAME, what, numerics=tuple(numerics), made=tuple(called)))


def what_changed(elems: Sequence[int]) -> str:
    """Words the change, as in "uint16 in int32"."""
    if not elems:
        return "in legal types"
    counted = Counter(elems)
    return ", ".join(
        f"{dtype_name(e)} in {dtype_name(legal_type(e)) if e in ILLEGAL_TYPES else 'int32'}" for e in counted
    )

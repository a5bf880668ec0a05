"""Removes Tile of a scalar, which repeats nothing: TensorRT-RTX 1.6.1 gives 0 (seen on an H200)."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULTS = (Fault("tensorrt_rtx", ("1.6.1",), "gives 0 for Tile of a scalar", "an engine run on an H200"),)


@node_rule("scalar-tile", "Tile", faults=_FAULTS)
def scalar_tile_rule(node: NodeView) -> Replacement | None:
    """Removes Tile of a scalar."""
    if node.rank(0) != 0:
        return None
    w = Writer(node)
    return Replacement(w.finish(w.x[0]), "the scalar", notes=(node.because(_FAULTS, "it is left out"),))

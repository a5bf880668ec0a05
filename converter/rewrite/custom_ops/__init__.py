"""The passes for custom operators, in the order in which they run: an explicit tuple.

They alone work on GraphSurgeon's graphs. A model that concerns none of them does not wait for its import.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trtsmith.converter.rewrite.engine.records import Kinds, Pass, Record
from trtsmith.importers.registry import find_spellings

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs


def _spellings(graph: gs.Graph) -> Iterable[Record]:
    from trtsmith.converter.rewrite.custom_ops.aliases import rewrite_spellings

    return rewrite_spellings(graph)


def _grid_sample_attention(graph: gs.Graph) -> Iterable[Record]:
    from trtsmith.converter.rewrite.custom_ops.grid_sample_attention import map_grid_sample_attention

    return map_grid_sample_attention(graph)


def _has_spelling(kinds: Kinds) -> bool:
    return any(find_spellings(domain, op_type) for domain, op_type in kinds)


def _has_attention(kinds: Kinds) -> bool:
    return {("", "GridSample"), ("", "ReduceSum")} <= kinds


SPELLINGS = Pass("spellings", "custom nodes, however spelled, become plugin nodes", _spellings, _has_spelling)
GRID_SAMPLE_ATTENTION = Pass(
    "grid-sample-attention",
    "multi-scale deformable attention exported as a chain of GridSample becomes a plugin node",
    _grid_sample_attention,
    _has_attention,
)

PASSES: tuple[Pass, ...] = (SPELLINGS, GRID_SAMPLE_ATTENTION)

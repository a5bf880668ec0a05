"""Lists the passes for custom operators, in the order in which they run.

They alone work on GraphSurgeon's graphs. A model that concerns none of them does not wait for its import.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trtsmith.converter.rewrite.engine.records import Kinds, Pass, Record
from trtsmith.importers.registry import find_aliases

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs


def _aliases(graph: gs.Graph) -> Iterable[Record]:
    from trtsmith.converter.rewrite.custom_ops.aliases import rewrite_aliases

    return rewrite_aliases(graph)


def _grid_sample_attention(graph: gs.Graph) -> Iterable[Record]:
    from trtsmith.converter.rewrite.custom_ops.grid_sample_attention import map_grid_sample_attention

    return map_grid_sample_attention(graph)


def _attention_from_offsets(graph: gs.Graph) -> Iterable[Record]:
    from trtsmith.converter.rewrite.custom_ops.attention_from_offsets import take_offsets

    return take_offsets(graph)


def _is_alias(domain: str, op_type: str) -> bool:
    return bool(find_aliases(domain, op_type))


def _has_alias(kinds: Kinds) -> bool:
    return any(_is_alias(*kind) for kind in kinds)


def _has_attention(kinds: Kinds) -> bool:
    return {("", "GridSample"), ("", "ReduceSum")} <= kinds


def _has_softmax(kinds: Kinds) -> bool:
    """Whether a Softmax stands beside attention that earlier passes find."""
    return ("", "Softmax") in kinds and (_has_alias(kinds) or _has_attention(kinds))


ALIASES = Pass(
    "aliases",
    "custom operators with an alias become plugin nodes",
    _aliases,
    _has_alias,
    _is_alias,
)
GRID_SAMPLE_ATTENTION = Pass(
    "grid-sample-attention",
    "multi-scale deformable attention that was exported as GridSample nodes becomes a plugin node",
    _grid_sample_attention,
    _has_attention,
)
ATTENTION_FROM_OFFSETS = Pass(
    "attention-from-offsets",
    "softmax and sampling locations move into the plugin of multi-scale deformable attention",
    _attention_from_offsets,
    _has_softmax,
)

PASSES: tuple[Pass, ...] = (ALIASES, GRID_SAMPLE_ATTENTION, ATTENTION_FROM_OFFSETS)

"""Rewrites a ScatterND of one value at a mask's true elements, as PyTorch exports x[mask] = 0, as Where.

The places are NonZero of the mask. TensorRT-RTX has no layer for it, and 1.7.1 fails to build the plugin for it before a
ScatterND of ranging sizes (convertExplicitDDSPluginToImplicit). A Where needs no places.
"""

from __future__ import annotations

from trtsmith.converter.graph.tensor_types import dims_of
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer

_REPEATS = ("Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that repeat a value and give it a shape."""


@node_rule("masked-fill", "ScatterND", flavour="tensorrt_rtx")
def masked_fill_rule(node: NodeView) -> Replacement | None:
    """Rewrites ScatterND of one value at a mask's true elements as Where."""
    mask, value = _mask(node), _filled_with(node)
    if mask is None or value is None or node.attributes.get("reduction", "none") != "none":
        return None
    rank, masked = node.rank(0), mask.rank(0)
    if rank is None or not masked or not _covers(mask, node, masked):
        return None
    w = Writer(node)
    where = w.value(mask.input(0))
    if mask.dtype(0) != "bool":
        where = w.Cast(where, to="bool")
    where = w.unsqueeze(where, range(masked, rank))
    return Replacement(
        w.finish(w.Where(where, w.Reshape(value, shape=[]), w.x[0])),
        "a choice by the mask, whose places are not needed",
    )


def _mask(node: NodeView) -> NodeView | None:
    """The NonZero whose transposed result is the indices; None if there is none."""
    rows = node.maker(1)
    if rows is None or not rows.is_a("Transpose") or rows.attributes.get("perm", [1, 0]) != [1, 0]:
        return None
    places = rows.maker(0)
    return places if places is not None and places.is_a("NonZero") else None


def _filled_with(node: NodeView) -> str | None:
    """The single value that all updates repeat; None if there is none."""
    name, maker = node.input(2), node.maker(2)
    while maker is not None and maker.is_a(*_REPEATS):
        name, maker = maker.input(0), maker.maker(0)
    found = node.type_of(name)
    dims = None if found is None else dims_of(found)
    return name if dims is not None and all(size == 1 for size in dims) else None


def _covers(mask: NodeView, node: NodeView, rank: int) -> bool:
    """Whether the mask has the sizes of the data's first axes, or is expanded to the data's shape."""
    sizes, whole = mask.dims(0), node.dims(0)
    if sizes is not None and whole is not None and sizes == whole[:rank] and None not in sizes:
        return True
    maker = mask.maker(0)
    shape = maker.maker(1) if maker is not None and maker.is_a("Expand") else None
    return shape is not None and shape.is_a("Shape") and shape.input(0) == node.input(0)

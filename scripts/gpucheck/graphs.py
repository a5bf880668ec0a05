"""The graph that an engine without plugins is built from: rewritten, with plugin nodes expanded into standard operators."""

from __future__ import annotations

from dataclasses import replace

from trtsmith.converter.rewrite.rewrite import Rewritten, expand, has_plugin_nodes, rewrite


def without_plugins(result: Rewritten) -> Rewritten:
    """The same without plugin nodes. ConversionError if one cannot be expanded.

    The parser of TensorRT-RTX 1.6.1, the last that runs on compute capability 9.0, imports no plugins.
    """
    if not has_plugin_nodes(result.model):
        return result
    again = rewrite(
        expand(result.model), result.target, passes=()
    )  # a pass would find the plugin's pattern once more
    assert again.before is not None
    io_types = (*result.io_types, *again.io_types)
    return replace(
        again,
        rewrites=result.rewrites,
        declined=result.declined,
        io_types=io_types,
        before=replace(again.before, io_types=io_types),
    )

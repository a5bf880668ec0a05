"""The graph that an engine without plugins is built from: rewritten, with plugin nodes expanded into standard operators."""

from __future__ import annotations

from converter.modelfile.model import Model
from converter.passes.scopes import all_graphs
from converter.passes.types import IoType
from converter.rewrite import Rewritten, expand, rewrite
from importers.opdef import PLUGIN_NAMESPACE


def has_plugins(model: Model) -> bool:
    return any(n.domain == PLUGIN_NAMESPACE for g in all_graphs(model.proto.graph) for n in g.node)


def without_plugins(result: Rewritten) -> tuple[Model, tuple[IoType, ...]]:
    """The graph and what is cast at its edges. ConversionError if a plugin node cannot be expanded.

    The parser of TensorRT-RTX 1.6.1, the last that runs on compute capability 9.0, imports no plugins.
    """
    if not has_plugins(result.model):
        return result.model, result.io_types
    again = rewrite(expand(result.model), passes=())  # a pass would find the plugin's pattern once more
    return again.model, (*result.io_types, *again.io_types)

"""Renames a node's inputs and outputs, inside its subgraphs too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from trtsmith.converter.graph.walk import subgraphs


def rename_values(node: onnx.NodeProto, renamed: Mapping[str, str], fresh: Callable[[str], str]) -> None:
    """Renames values by `renamed`. Values that subgraphs make get fresh names, so that copies of a node differ."""
    for values in (node.input, node.output):
        for index, name in enumerate(values):
            values[index] = renamed.get(name, name)
    for graph in subgraphs(node):
        made = [value.name for value in (*graph.input, *graph.initializer)]
        made += [name for inner in graph.node for name in inner.output if name]
        within = {**renamed, **{name: fresh(name) for name in made}}
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = within.get(value.name, value.name)
        del graph.value_info[:]  # inferred again
        for inner in graph.node:
            rename_values(inner, within, fresh)

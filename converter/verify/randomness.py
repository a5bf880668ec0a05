"""Finds outputs that depend on random numbers, which two runtimes never draw alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.importers.registry import normalise_domain

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def random_outputs(model: Model) -> dict[str, str]:
    """Finds outputs that depend on random numbers: for each, a sentence that names the node that draws them."""
    graph = inline(model, frozenset(all_functions(model))).proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {n.output[0]: a.t for n in graph.node for a in n.attribute if a.name == "value"}
    sources: dict[str, str] = {}

    def drawn(node: onnx.NodeProto) -> str | None:
        """The random node that this one is, holds in a subgraph, or depends on."""
        if not normalise_domain(node.domain) and (node.op_type in _RANDOM or trains(node)):
            return f"{node.op_type} {(node.name or node.output[0])!r}"
        reached = (sources[name] for name in _read(node) if name in sources)
        inside = (found for inner in subgraphs(node) for n in inner.node if (found := drawn(n)) is not None)
        return next(reached, None) or next(inside, None)

    def trains(node: onnx.NodeProto) -> bool:
        """Dropout in training mode; a mode that the model is fed is taken for training."""
        if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
            return False
        mode = constants.get(node.input[2])
        return mode is None or bool(np.any(model.array(mode)))

    for node in graph.node:
        found = drawn(node)
        if found is not None:
            sources.update(dict.fromkeys(node.output, found))
    return {
        value.name: f"output {value.name!r} is not comparable: {sources[value.name]} draws random numbers"
        for value in graph.output
        if value.name in sources
    }


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node reads, in its subgraphs too."""
    yield from node.input
    for inner in subgraphs(node):
        yield from (value.name for value in inner.output)
        for n in inner.node:
            yield from _read(n)

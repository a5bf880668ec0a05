"""Finds models whose numbers in onnxruntime depend on how many threads it has."""

from __future__ import annotations

import onnx

_SPLIT = frozenset({("com.microsoft", "DynamicQuantizeLSTM")})
"""Operators whose kernel gives each thread a part of the batch, and quantizes each part by itself: seen in onnxruntime 1.31,
whose results for a batch of 2 are off by 2e-3 with two threads. With one thread the batch is one part."""


def depends_on_threads(graph: onnx.GraphProto) -> bool:
    """Whether a node of the graph, or of one inside it, is of such an operator."""
    return any(
        (node.domain, node.op_type) in _SPLIT
        or any(depends_on_threads(inner) for a in node.attribute for inner in (a.g, *a.graphs))
        for node in graph.node
    )

"""Rewrites EyeLike of a matrix whose size only a run tells: TensorRT makes a constant of it, or refuses."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.dtypes import NUMBERS


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape = node.shape(0)
    if shape is not None and None not in shape:
        return None
    wanted = node.attributes.get("dtype") or NUMBERS.get(node.dtype(0) or "")
    if not wanted:
        return Refusal(
            f"the element type of {node.input(0)!r} is unknown",
            "a dtype attribute, or a tensor of known type",
            "run onnx.shape_inference on the model, so that types are known",
        )
    w = Writer(node)
    sizes = w.do("Shape", "x0")
    height, width = (w.do("Gather", sizes, np.array(axis), axis=0) for axis in (0, 1))
    rows, columns = (w.do("Range", np.array(0), size, np.array(1)) for size in (height, width))
    diagonal = w.do("Add", w.unsqueeze(rows, [1]), np.array(int(node.attributes.get("k", 0))))
    w.do("Cast", w.do("Equal", diagonal, columns), result="y0", to=wanted)
    return Replacement(w.nodes(), "a comparison of row and column numbers")


DYNAMIC_EYE = NodeRule(
    "dynamic-eye",
    "EyeLike of a matrix of dynamic size",
    ("EyeLike",),
    _rewrite,
)

"""EyeLike of a matrix whose size is known at run time only: TensorRT makes a constant of it, or refuses."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape = node.shape(0)
    if shape is not None and None not in shape:
        return None
    wanted = node.attributes.get("dtype") or _number(node.dtype(0))
    if not wanted:
        return Refusal(
            f"the element type of {node.input(0)!r} is unknown",
            "a dtype attribute, or a tensor of known type",
            "run onnx.shape_inference on the model, so that types are known",
        )
    body = f"""
        shape = Shape (x0)
        height = Gather <axis = 0> (shape, zero)
        width = Gather <axis = 0> (shape, one)
        rows = Range (zero, height, one)
        columns = Range (zero, width, one)
        {unsqueeze("row", "rows", [1], node.opset)}
        diagonal = Add (row, offset)
        here = Equal (diagonal, columns)
        y0 = Cast <to = {wanted}> (here)
    """
    values = {"zero": 0, "one": 1, "offset": int(node.attributes.get("k", 0))}
    arrays = {name: np.array(value, np.int64) for name, value in values.items()}
    return Replacement(statements(node, body, **arrays), "a comparison of row and column numbers")


def _number(dtype: str | None) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))) if dtype else onnx.TensorProto.UNDEFINED


DYNAMIC_EYE = NodeRule(
    "dynamic-eye",
    "EyeLike of a matrix of dynamic size",
    ("EyeLike",),
    _rewrite,
)

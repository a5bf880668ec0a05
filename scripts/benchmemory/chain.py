"""Makes the model whose conversion is measured: a chain of matrix products, most of it weights in one external file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4096
"""Of the chain: weights of 64 MiB."""


def write_model(path: Path, layers: int, *, custom: bool, width: int = WIDTH) -> None:
    """x -> MatMul, MatMul, ... -> y, all float32[1, 4, width], with random weights in model.data beside the file.

    custom: at the end the inverse of a corner of y made dominant, as a custom operator -> z, float32[1, 4, 4].
    Values keep their size from layer to layer: weights are uniform, of variance 1 / width.
    """
    rng = np.random.default_rng(0)
    nodes, tensors = [], []
    with (path.parent / "model.data").open("wb") as data:
        for i in range(layers):
            weight = rng.random((width, width), np.float32)
            weight -= np.float32(0.5)
            weight *= np.float32((12 / width) ** 0.5)
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=weight.shape)
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": "model.data", "offset": str(data.tell()), "length": str(weight.nbytes)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
            weight.tofile(data)
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}"], f"n{i}"))
    nodes.append(helper.make_node("Identity", [f"x{layers}"], ["y"]))
    outputs = {"y": width}
    if custom:
        nodes += _inverse_of_corner(f"x{layers}")
        tensors += [numpy_helper.from_array(value, name) for name, value in _CONSTANTS.items()]
        outputs["z"] = 4
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, width])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, size]) for n, size in outputs.items()],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom_op", 1)]
    model = helper.make_model(graph, opset_imports=opsets[: 1 + custom], ir_version=8)
    path.write_bytes(model.SerializeToString())


_CONSTANTS: dict[str, Any] = {
    "from": np.array([0]),
    "to": np.array([4]),
    "axis": np.array([2]),
    "eye": np.eye(4, dtype=np.float32) * 9,
}


def _inverse_of_corner(value: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Slice", [value, "from", "to", "axis"], ["corner"]),
        helper.make_node("Add", ["corner", "eye"], ["dominant"]),
        helper.make_node("InversePlugin", ["dominant"], ["z"], "inverse", domain="custom_op"),
    ]

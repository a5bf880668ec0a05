"""Exports of models/ without their weights, and the weights put back from a PyTorch module of the same structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

WEIGHT = "trtsmith.weight_of_the_module"
LEAST_BYTES = 4096
"""Smaller initializers travel with the graph."""


def write_skeletons(folder: Path) -> Iterator[Path]:
    """Export every model of models/ and write it without weights: folder/NAME.skeleton.onnx."""
    from models import MODELS
    from models.export import export_model

    for name in MODELS:
        exported = export_model(name, folder / "exported")
        proto = onnx.load(exported.model)
        exported.model.unlink()
        path = folder / f"{name}.skeleton.onnx"
        onnx.save(strip(proto, _arrays(MODELS[name].make()[0].state_dict())), path)
        yield path


def strip(proto: onnx.ModelProto, weights: Mapping[str, Any]) -> onnx.ModelProto:
    """A copy of the model in which initializers that are these arrays, by name, shape and value, have no data."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for tensor in result.graph.initializer:
        array = numpy_helper.to_array(tensor)
        weight = weights.get(tensor.name)
        if array.nbytes < LEAST_BYTES or weight is None or weight.shape != array.shape:
            continue
        if weight.dtype == array.dtype and weight.tobytes() == array.tobytes():
            _clear(tensor)
            tensor.doc_string = WEIGHT
    return result


def fill(proto: onnx.ModelProto, weights: Mapping[str, Any]) -> onnx.ModelProto:
    """A copy of a stripped model with the weights of a module. ValueError if they do not fit it."""
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for tensor in result.graph.initializer:
        if tensor.doc_string != WEIGHT:
            continue
        made = numpy_helper.from_array(weights[tensor.name], tensor.name) if tensor.name in weights else None
        if made is None or (made.data_type, list(made.dims)) != (tensor.data_type, list(tensor.dims)):
            raise ValueError(f"the module has no weight {tensor.name!r} of shape {list(tensor.dims)}")
        tensor.CopyFrom(made)
    return result


def filled(path: Path, module: Any) -> onnx.ModelProto:
    """The model in a file that write_skeletons wrote, with the weights of this PyTorch module."""
    return fill(onnx.load(path), _arrays(module.state_dict()))


def _clear(tensor: onnx.TensorProto) -> None:
    for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(name)


def _arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}

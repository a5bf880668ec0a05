"""Exports models/ without weights, and restores the weights from a PyTorch module of the same structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

SUFFIX = ".skeleton.onnx"
WEIGHT = "trtsmith.weight_of_the_module"


def write_skeletons(folder: Path, names: Sequence[str] = (), small: bool = False) -> Iterator[Path]:
    """Exports models of models/ (all unless named) without weights: folder/NAME.skeleton.onnx."""
    from models import MODELS
    from trtsmith.importers.torch_ops import export

    folder.mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        model = MODELS[name]
        module, inputs = model.make(small=small, batch=2)
        whole = folder / f"{name}.onnx"
        export(
            module,
            tuple(inputs.values()),
            whole,
            input_names=model.input_names,
            output_names=model.output_names,
            dynamic_shapes=model.dynamic_shapes(),
            optimise=False,
        )
        path = folder / f"{name}{SUFFIX}"
        onnx.save(strip(onnx.load(whole), _weights(module)), path)
        whole.unlink()
        yield path


def strip(proto: onnx.ModelProto, weights: Mapping[str, Any]) -> onnx.ModelProto:
    """A copy of the model without the data of initializers that equal these arrays by name, shape and value.

    Small ones too: a bias that stayed would be that of the module as it was then, next to weights of the module as it is.
    """
    result = deepcopy(proto)
    for tensor in result.graph.initializer:
        array = numpy_helper.to_array(tensor)
        weight = weights.get(tensor.name)
        if weight is None or (weight.shape, weight.dtype) != (array.shape, array.dtype):
            continue
        if weight.tobytes() == array.tobytes():
            clear_data(tensor)
            tensor.doc_string = WEIGHT
    return result


def fill(proto: onnx.ModelProto, weights: Mapping[str, Any]) -> onnx.ModelProto:
    """A copy of a stripped model with a module's weights. Raises ValueError if they do not fit."""
    result = deepcopy(proto)
    for tensor in result.graph.initializer:
        if tensor.doc_string != WEIGHT:
            continue
        made = numpy_helper.from_array(weights[tensor.name], tensor.name) if tensor.name in weights else None
        if made is None or (made.data_type, list(made.dims)) != (tensor.data_type, list(tensor.dims)):
            raise ValueError(f"the module has no weight {tensor.name!r} of shape {list(tensor.dims)}")
        tensor.CopyFrom(made)
    return result


def filled(path: Path, module: Any) -> onnx.ModelProto:
    """The model in a file of write_skeletons, with this PyTorch module's weights."""
    return fill(onnx.load(path), _weights(module))


def clear_data(tensor: onnx.TensorProto) -> None:
    for name in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(name)


def _weights(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name, including those that are not saved with the module."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}

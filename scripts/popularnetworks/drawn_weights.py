"""Draws weights from their names and shapes: for a PyTorch module, and for a graph that travels without them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from math import sqrt
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from gpubundle.skeleton import clear_data

DRAWN = "trtsmith.drawn"
"""Begins the doc_string of an initializer that fill_graph draws; its mean and its standard deviation follow."""

LEAST = 1024
"""Elements. Smaller initializers keep their values: many are no weights."""

WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "MatMul": 0, "Gemm": 0, "Gather": 0}
"""The first input that can be a weight."""


def draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 from a normal distribution; equal for equal names and shapes."""
    seed = sha256(f"{name} {shape}".encode()).digest()[:8]
    return np.random.default_rng(int.from_bytes(seed, "little")).standard_normal(shape, np.float32)


def fill_module(module: Any) -> None:
    """Draws every parameter with the library's mean and deviation; constant parameters vary by 0.1.

    So neither a scale that starts at 0 hides a branch, nor do norms and biases that start at 1 and 0.
    """
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.is_floating_point() and parameter.numel():
                deviation = float(parameter.std()) if parameter.numel() > 1 else 0.0
                drawn = draw(name, tuple(parameter.shape)) * (deviation or 0.1)
                parameter.copy_(parameter.mean() + torch.from_numpy(np.asarray(drawn)).to(parameter.dtype))


def mark_weights(proto: onnx.ModelProto) -> None:
    """Notes mean and deviation of every initializer that a layer reads as its weight."""
    read = {
        name
        for node in proto.graph.node
        if node.op_type in WEIGHTS
        for name in node.input[WEIGHTS[node.op_type] : 2]
    }
    for tensor in proto.graph.initializer:
        if tensor.name in read and tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor)
            # A table of filters or a one-hot matrix is no weight: it has zeros.
            if array.size >= LEAST and np.count_nonzero(array) > 0.9 * array.size:
                tensor.doc_string = f"{DRAWN} {float(array.mean())} {sqrt(float(array.var()))}"


def fill_graph(proto: onnx.ModelProto) -> None:
    """Draws the initializers noted by mark_weights, from their names and shapes alone."""
    for tensor, mean, deviation in _drawn(proto):
        shape = tuple(tensor.dims)
        array = np.float32(mean) + np.float32(deviation) * draw(tensor.name, shape)
        said = tensor.doc_string
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        tensor.doc_string = said


def strip_graph(proto: onnx.ModelProto) -> None:
    """Removes the data of these initializers, which fill_graph restores."""
    for tensor, _, _ in _drawn(proto):
        clear_data(tensor)


def _drawn(proto: onnx.ModelProto) -> Iterator[tuple[TensorProto, float, float]]:
    for tensor in proto.graph.initializer:
        if tensor.doc_string.startswith(DRAWN):
            mean, deviation = map(float, tensor.doc_string.split()[1:])
            yield tensor, mean, deviation

"""Draws inputs for networks with integers whose meaning the graph does not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from realmodels.real_model import RealModel
from trtsmith.converter.base.options.shapes import parse_shapes


def write_inputs(model: RealModel, path: Path, target: Path) -> Path:
    """Writes an .npz with every input that is not frozen, at the shape for which the engine is built."""
    proto = onnx.load(path, load_external_data=False)
    inner = {tensor.name for tensor in proto.graph.initializer} | set(model.frozen())
    generator = np.random.default_rng(0)
    shapes = {name: given.opt for name, given in parse_shapes(model.shapes).items()}
    arrays = {
        value.name: _drawn(model, value, shapes, generator)
        for value in proto.graph.input
        if value.name not in inner
    }
    np.savez(target, allow_pickle=False, **arrays)
    return target


def _drawn(
    model: RealModel,
    value: onnx.ValueInfoProto,
    shapes: dict[str, tuple[int, ...]],
    generator: np.random.Generator,
) -> np.ndarray:
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = shapes.get(value.name) or tuple(dim.dim_value for dim in tensor.shape.dim)
    if value.name in model.ranges:
        low, high = model.ranges[value.name]
        drawn = np.full(shape, low) if low == high else generator.integers(int(low), int(high), shape)
        return drawn.astype(dtype)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.normal(size=shape).astype(dtype)

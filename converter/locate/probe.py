"""Probes the element types and sizes of all values of a model by running it in onnxruntime on given inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.locate.executors.edges import plain_edges
from trtsmith.converter.locate.executors.emulation import emulation
from trtsmith.converter.locate.fault_graph import with_outputs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run

_TYPES: Mapping[str, str] = {
    f"tensor({name})": dtype
    for name, dtype in (
        ("float", "float32"), ("double", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"),
        ("bool", "bool"), *((f"{sign}int{bits}",) * 2 for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}  # fmt: skip
"""onnxruntime's names of types that can be compared, and numpy's; sequences, strings and odd numbers are none."""


@dataclass(frozen=True)
class Value:
    """A value of one run: dtype as numpy and ml_dtypes name it, shape as it was in that run."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def info(self) -> onnx.ValueInfoProto:
        """The value as a graph output; TensorRT's parser wants the type of each. The shape is for it to find."""
        elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        return helper.make_tensor_value_info(self.name, elem_type, None)


def probe(model: Model, names: Iterable[str], feeds: Mapping[str, np.ndarray]) -> dict[str, Value]:
    """The values of these names that are tensors of comparable types. ConversionError if onnxruntime cannot run it.

    Only shapes are asked for, so that memory stays what one run needs.
    """
    wanted = list(dict.fromkeys(names))
    wide = emulation(model)
    model = wide.model
    session = open_session(
        with_outputs(model, (onnx.ValueInfoProto(name=n) for n in wanted), only=True),
        repack=False,
        optimise=False,
    )
    types = {o.name: _TYPES[o.type] for o in session.get_outputs() if o.type in _TYPES}
    del session
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.output[:]
    fresh = FreshNames()
    fresh.take(wanted)
    fresh.take(name for node in proto.graph.node for name in (*node.input, *node.output))
    shapes = {}
    for name in types:
        shapes[name] = fresh.value(f"{name}/shape")
        proto.graph.node.append(helper.make_node("Shape", [name], [shapes[name]]))
        proto.graph.output.append(helper.make_tensor_value_info(shapes[name], onnx.TensorProto.INT64, None))
    edges = plain_edges(model.with_proto(proto))
    found = run(edges.model, edges.put_in(wide.put_in(feeds)), optimise=False)
    types |= {name: wide.dtypes[name] for name in types if name in wide.dtypes}
    return {name: Value(name, types[name], tuple(map(int, found[shapes[name]]))) for name in types}

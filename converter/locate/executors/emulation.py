"""Runs graphs of float16 and bfloat16 on onnxruntime's CPU: nodes compute in float32, results are rounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np
import onnx

from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.converter.rewrite.precision.emulate import REDUCED, emulated
from trtsmith.importers.dtypes import dtype_name

_NAMES = frozenset(map(dtype_name, REDUCED))


@dataclass(frozen=True, eq=False)
class Emulation:
    """A model in which every value of a reduced type is float32, rounded. dtypes: by name, the type that it stands for."""

    model: Model
    dtypes: Mapping[str, str]

    def put_in(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays in the types of the graph that is emulated, as this model takes them."""
        return {n: a.astype(np.float32) if n in self.dtypes else a for n, a in arrays.items()}

    def take_out(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """This model's values in the types of the graph that is emulated: all are rounded, so nothing is lost."""
        return {n: a.astype(np.dtype(self.dtypes[n])) if n in self.dtypes else a for n, a in arrays.items()}


def emulation(model: Model) -> Emulation:
    """Emulates the float16 and bfloat16 of a graph in standard operators. A graph without them stays as it is."""
    if not _has_reduced(model.proto):
        return Emulation(model, {})
    whole = infer_shapes(inline(model, frozenset(all_functions(model))))
    dtypes = {name: dtype for name, dtype in value_dtypes(whole.proto).items() if dtype in _NAMES}
    return Emulation(emulated(whole), dtypes)


def _has_reduced(proto: onnx.ModelProto) -> bool:
    """Whether such a type stands anywhere that values can have it from; it takes no inference to see."""
    for graph in all_graphs(proto.graph):
        values = (*graph.input, *graph.output, *graph.value_info)
        if any(v.type.tensor_type.elem_type in REDUCED for v in values):
            return True
        if any(tensor.data_type in REDUCED for tensor in graph.initializer):
            return True
        if any(map(_names_reduced, graph.node)):
            return True
    return any(_names_reduced(node) for function in proto.functions for node in function.node)


def _names_reduced(node: onnx.NodeProto) -> bool:
    """Whether an attribute is, or may mean, such a type: "to", "dtype", a tensor."""
    return any(
        a.t.data_type in REDUCED if a.type == onnx.AttributeProto.TENSOR else a.i in REDUCED
        for a in node.attribute
        if a.type in (onnx.AttributeProto.TENSOR, onnx.AttributeProto.INT)
    )

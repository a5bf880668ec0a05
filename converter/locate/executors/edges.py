"""Changes models so that inputs and outputs have types that numpy's files and onnxruntime's Python know.

bfloat16 and float8 cross such an edge as float32, which holds each of their values exactly, with a Cast behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.fresh_names import FreshNames
from trtsmith.converter.model.model import Model
from trtsmith.importers.dtypes import dtype_name

ODD = frozenset({"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
"""Types that cross an edge as float32."""


@dataclass(frozen=True)
class PlainEdges:
    """A model whose edges are of plain types. names: by edge of the original model, its name and type here."""

    model: Model
    names: Mapping[str, tuple[str, str]]

    def put_in(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays by the original's names and in its types, as this model takes or gives them."""
        plain = {}
        for name, array in arrays.items():
            new, _ = self.names.get(name, (name, ""))
            plain[new] = array.astype(np.float32) if name in self.names else array
        return plain

    def take_out(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays of this model's outputs by the original's names and in its types."""
        back = {new: (old, dtype) for old, (new, dtype) in self.names.items()}
        taken = {}
        for name, array in arrays.items():
            old, dtype = back.get(name, (name, ""))
            taken[old] = array.astype(np.dtype(dtype)) if dtype else array
        return taken


def plain_edges(model: Model) -> PlainEdges:
    """The model with Casts to and from float32 where an input or output is of an odd type; itself where none is."""
    graph = model.proto.graph
    odd = {v.name for v in (*graph.input, *graph.output) if _dtype(v) in ODD}
    if not odd:
        return PlainEdges(model, {})
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    names = FreshNames()
    names.take(v.name for v in (*graph.input, *graph.output, *graph.value_info, *graph.initializer))
    names.take(name for node in graph.node for name in (*node.input, *node.output))
    renamed: dict[str, tuple[str, str]] = {}

    def rename(value: onnx.ValueInfoProto) -> tuple[str, str, int]:
        old, dtype, elem_type = value.name, _dtype(value), value.type.tensor_type.elem_type
        value.name = names.value(f"{old}/float32")
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        renamed[old] = (value.name, dtype)
        return old, value.name, elem_type

    casts_in, casts_out = [], []
    for value in graph.input:
        if _dtype(value) in ODD:
            old, new, elem_type = rename(value)
            casts_in.append(helper.make_node("Cast", [new], [old], to=elem_type))
    for value in graph.output:
        if _dtype(value) in ODD:
            old, new, _ = rename(value)
            casts_out.append(helper.make_node("Cast", [old], [new], to=onnx.TensorProto.FLOAT))
    nodes = [*casts_in, *graph.node, *casts_out]
    kept = onnx.GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(kept.node)
    return PlainEdges(model.with_proto(proto), renamed)


def _dtype(value: onnx.ValueInfoProto) -> str:
    elem_type = value.type.tensor_type.elem_type
    return dtype_name(elem_type) if elem_type else ""

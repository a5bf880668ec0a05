"""Interprets dynamic dimensions as exporters write them.

A symbol is a promise: two dimensions of one name have one size. paddle2onnx calls every dynamic dimension `?`, others
write -1 or `None`; taken at their word, height and width would have to be equal, and TensorRT refuses the shapes as
contradictory. Such dimensions lose their name here: unknown, and each for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from trtsmith.converter.model.check import iter_graphs

_NO_NAMES = frozenset({"-1", "None", "none", "null", "unknown"})
"""Beside names without a letter or digit."""


def free_unnamed_dims(proto: onnx.ModelProto) -> None:
    """Dimensions of size -1, and those whose symbol says only that the size is unknown, become unknown; in place."""
    for dim in _dims(proto):
        if dim.dim_value == -1 or (dim.dim_param and _says_nothing(dim.dim_param)):
            dim.Clear()


def _says_nothing(name: str) -> bool:
    return name in _NO_NAMES or not any(map(str.isalnum, name))


def _dims(proto: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for graph in iter_graphs(proto.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
                yield from value.type.tensor_type.shape.dim

"""Converts weights to a reduced type, if their range allows, and streams them to a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.model import INLINE_LIMIT
from trtsmith.converter.model.tensors import set_reference
from trtsmith.converter.rewrite.precision.formats import FORMATS, Format
from trtsmith.importers.dtypes import numpy_dtype

_CHUNK = 1 << 22
"""Elements that are looked at or converted at a time: 16 MiB of float32."""


def unfit(values: np.ndarray, fmt: Format) -> str:
    """Says why the numbers do not fit the type, with the first such number; "" if they fit. Infinities and NaN fit every
    type.
    """
    largest, smallest = 0.0, np.inf
    for part in _chunks(values):
        sizes = np.abs(part[np.isfinite(part)])
        if sizes.size:
            largest = max(largest, float(sizes.max()))
            sizes = sizes[sizes > 0]
            smallest = min(smallest, float(sizes.min(initial=np.inf)))
    if largest > fmt.largest:
        return f"{largest:.3g} is beyond {fmt.name}'s {fmt.largest:.5g}"
    if 0 < largest < fmt.normal:
        return f"{largest:.3g}, the largest, is below {fmt.name}'s normal range, which begins at {fmt.normal:.2g}"
    return ""


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    flat = values.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK]


class Converted:
    """Constants of one graph converted to another type: small ones in the graph, large ones in a new weight file.

    elem: the type, an onnx.TensorProto.DataType. count: how many were converted. A number below the range of a reduced type
    is a mask's lowest, and becomes the type's (Format.masked).
    """

    def __init__(self, graph: Graph, elem: int) -> None:
        self._graph = graph
        self._dtype: np.dtype[Any] = numpy_dtype(elem)
        self._elem = elem
        self._format = next((fmt for fmt in FORMATS.values() if fmt.elem == elem), None)
        self.count = 0

    def tensor(self, values: np.ndarray, name: str) -> onnx.TensorProto:
        """Returns the values in the type, as an initializer. Raises UsageError if the file cannot be written."""
        self.count += 1
        length = values.size * self._dtype.itemsize
        if length < INLINE_LIMIT:
            return onnx.numpy_helper.from_array(self._brought(values), name)
        tensor = onnx.TensorProto(name=name, data_type=self._elem, dims=values.shape)
        parts = (self._brought(part).tobytes() for part in _chunks(values))
        set_reference(tensor, self._graph.weights.add(parts, length))
        self.release(values)
        return self._graph.referring(tensor)

    def _brought(self, values: np.ndarray) -> np.ndarray:
        fmt = self._format
        if fmt is not None and values.size and not values.min() >= -fmt.largest:
            values = np.where(np.isfinite(values) & (values < -fmt.largest), np.float32(fmt.masked), values)
        with np.errstate(over="ignore"):  # with --keep-only, whose verdict says what overflows
            return values.astype(self._dtype)

    def release(self, values: np.ndarray) -> None:
        """Releases the memory of a mapped weight after its conversion."""
        for file in self._graph.source.files.values():
            file.release(values)

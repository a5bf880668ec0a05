"""Weights in a reduced type: whether their numbers bear it, and the converted ones, streamed to a file of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.model.model import INLINE_LIMIT, Model
from trtsmith.converter.model.tensors import Reference, set_reference
from trtsmith.converter.model.weights import MappedFile
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.importers.dtypes import numpy_dtype
from trtsmith.importers.problem import Problem

_CHUNK = 1 << 22
"""Elements that are looked at or converted at a time: 16 MiB of float32."""


def unfit(values: np.ndarray, fmt: Format) -> str:
    """Why the numbers cannot be of the type, with the culprit; "" if they can. Infinities and NaN are in every type."""
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
    """The constants of one model in another type. Small ones go into the graph, others to an unnamed file.

    elem: the type, an onnx.TensorProto.DataType.
    """

    def __init__(self, model: Model, elem: int) -> None:
        self._model = model
        self._dtype: np.dtype[Any] = numpy_dtype(elem)
        self._elem = elem
        self._location = f".trtsmith-{self._dtype}"
        self._stream: Any = None
        self._path = Path()
        self.count = 0

    def tensor(self, values: np.ndarray, name: str) -> onnx.TensorProto:
        """The values in the type, as an initializer of that name. UsageError: no room for the file."""
        self.count += 1
        if values.size * self._dtype.itemsize < INLINE_LIMIT:
            return onnx.numpy_helper.from_array(values.astype(self._dtype), name)
        tensor = onnx.TensorProto(name=name, data_type=self._elem, dims=values.shape)
        offset = self._begin()
        try:
            for part in _chunks(values):
                self._stream.write(part.astype(self._dtype).tobytes())
        except OSError as error:
            raise self._no_room(error) from error
        set_reference(tensor, Reference(self._location, offset, self._stream.tell() - offset))
        self.release(values)
        return tensor

    def release(self, values: np.ndarray) -> None:
        """Releases values of a mapped file of the model: they need not stay in memory once they are converted."""
        for file in self._model.files.values():
            file.release(values)

    def files(self) -> Model:
        """The model with the file of converted weights among its files. The file has no name any more."""
        if self._stream is None:
            return self._model
        try:
            self._stream.flush()
            mapped = MappedFile(self._path)
        except OSError as error:
            raise self._no_room(error) from error
        finally:
            self.close()
        return replace(self._model, files={**self._model.files, self._location: mapped})

    def close(self) -> None:
        """Removes the file; a mapping of it lives on."""
        if self._stream is not None:
            self._stream.close()
            self._path.unlink(missing_ok=True)
            self._stream = None

    def _begin(self) -> int:
        try:
            if self._stream is None:
                while self._location in self._model.files:
                    self._location += "_"
                descriptor, name = tempfile.mkstemp(prefix="trtsmith-weights-")
                self._path, self._stream = Path(name), os.fdopen(descriptor, "wb")
            padding = -self._stream.tell() % 64
            self._stream.write(bytes(padding))
            return int(self._stream.tell())
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> UsageError:
        what = f"the weights in {self._dtype} cannot be written: {error.strerror or error}"
        fix = "free some space, or name another folder with the environment variable TMPDIR"
        return UsageError(Problem(what, tempfile.gettempdir(), "room for the weights in that type", fix))

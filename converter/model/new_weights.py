"""Holds weights that rewriting adds to a model, in unnamed files to which its tensors refer."""

from __future__ import annotations

import os
import secrets
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.model.model import INLINE_LIMIT
from trtsmith.converter.model.tensors import Reference, is_packed, set_reference
from trtsmith.converter.model.weights import MappedFile

_ALIGNMENT = 64  # a cache line, and more than any element type needs
_SMALLEST, _LARGEST = 4 << 20, 64 << 20  # bytes of a file: what is not written of it takes no room
_SIZES = (np.dtype(np.int32), np.dtype(np.int64))
"""Vectors of these stay in the graph whatever their length: shape inference reads them as sizes, axes and pads."""


class NewWeights:
    """Growing weight files. Written bytes never change, so models that refer to them stay valid.

    files: the existing ones, by the location that tensors name.
    """

    def __init__(self) -> None:
        self.files: dict[str, MappedFile] = {}
        self._location = ""
        self._descriptor = -1
        self._used = self._size = 0

    def tensor(self, values: npt.NDArray[np.generic], name: str) -> onnx.TensorProto:
        """Returns the values as a constant; small ones, sizes and strings are inside the proto. Raises UsageError if the
        disk is full.
        """
        array = np.asarray(values)
        if array.nbytes < INLINE_LIMIT or array.dtype == np.object_ or array.dtype.kind in "SU":
            return onnx.numpy_helper.from_array(array, name)
        if array.dtype in _SIZES and array.ndim < 2:
            return onnx.numpy_helper.from_array(array, name)
        data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        if is_packed(data_type):
            tensor = onnx.numpy_helper.from_array(array, name)
            set_reference(tensor, self.add([tensor.raw_data], len(tensor.raw_data)))
            return tensor
        tensor = onnx.TensorProto(name=name, data_type=data_type, dims=array.shape)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        set_reference(tensor, self.add([data.data], array.nbytes))
        return tensor

    def add(self, parts: Iterable[bytes | memoryview], length: int) -> Reference:
        """Writes `length` bytes, part by part, and returns their place. Raises UsageError if the disk is full."""
        try:
            offset = self._room(length)
            place = offset
            for part in parts:
                view = memoryview(part).cast("B")
                while len(view):
                    written = os.pwrite(self._descriptor, view, place)
                    place, view = place + written, view[written:]
        except OSError as error:
            what = f"the weights of the rewritten graph cannot be written: {error.strerror or error}"
            fix = "free some space, or set the environment variable TMPDIR to another folder"
            raise UsageError(
                what, tempfile.gettempdir(), f"room for {length} bytes of weights", fix
            ) from error
        self._used = place
        return Reference(self._location, offset, length)

    def _room(self, length: int) -> int:
        """The offset of this many free bytes in the newest file."""
        offset = self._used + -self._used % _ALIGNMENT
        if offset + length <= self._size:
            return offset
        self._begin(max(length, min(max(2 * self._size, _SMALLEST), _LARGEST)))
        return 0

    def _begin(self, size: int) -> None:
        descriptor, name = tempfile.mkstemp(prefix="trtsmith-weights-")
        try:
            os.ftruncate(descriptor, size)
            file = MappedFile(Path(name))
        except OSError:
            os.close(descriptor)
            raise
        finally:
            os.unlink(name)
        weakref.finalize(file, os.close, descriptor)
        self._location = (
            f".trtsmith-weights-{secrets.token_hex(8)}"  # no other file of any model is called so
        )
        self.files[self._location] = file
        self._descriptor, self._used, self._size = descriptor, 0, size

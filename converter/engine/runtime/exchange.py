"""Passes arrays from one process to another: raw bytes in a file, and a JSON file that describes them.

Not .npz: that has no name for bfloat16 and float8, and cannot be memory-mapped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

_INDEX, _DATA = "arrays.json", "arrays.bin"
_ALIGNMENT = 64  # a cache line: aligned for every dtype, and for vector loads


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name into `folder`, which is made if it is missing.

    Raises OSError where the disk refuses, ValueError for an array of anything but numbers and bytes.
    """
    folder.mkdir(exist_ok=True)
    index = []
    with open(folder / _DATA, "wb") as file:
        for name, value in arrays.items():
            array = np.asarray(value)
            if array.dtype.hasobject or array.dtype.names is not None:
                raise ValueError(f"The array {name!r} holds records or Python objects, not numbers.")
            array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
            offset = file.tell() + -file.tell() % _ALIGNMENT
            file.seek(offset)
            file.write(array.reshape(-1).view(np.uint8).data)
            index.append({"name": name, "dtype": str(array.dtype), "shape": array.shape, "offset": offset})
    (folder / _INDEX).write_text(json.dumps(index))


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Maps the arrays that `write_arrays` wrote, read-only; the folder may be removed while they are in use."""
    path = folder / _DATA
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    arrays = {}
    for item in json.loads((folder / _INDEX).read_text()):
        dtype, shape = np.dtype(item["dtype"]), tuple(item["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        piece = np.asarray(data[item["offset"] : item["offset"] + size])
        arrays[item["name"]] = piece.view(dtype).reshape(shape)
    return arrays

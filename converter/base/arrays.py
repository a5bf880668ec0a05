"""Reads and writes array files that users name, and accepts arrays from Python. Never loads pickles."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import replacing
from trtsmith.converter.base.own_files import ARRAYS_COMMENT

ArraySource = Path | Mapping[str, np.ndarray]
"""An .npz file, or the arrays themselves by name."""


class ArraysOf(dict[str, np.ndarray]):
    """Arrays by name, with their origin in words: "the module's example"."""

    def __init__(self, told: str, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(arrays)
        self.told = told


def told_source(source: ArraySource) -> str:
    """Returns the file, or the arrays' origin in words."""
    return str(source) if isinstance(source, Path) else getattr(source, "told", "given arrays")


def named_source(flag: str, source: ArraySource) -> str:
    """Names the arrays' origin for a message."""
    return f"{flag} {source}" if isinstance(source, Path) else f"{flag}: {told_source(source)}"


def load_arrays(source: ArraySource, flag: str) -> dict[str, np.ndarray]:
    """Loads arrays by name from an .npz file, or takes them as given. Raises UsageError if it cannot. Never loads
    pickles.
    """
    return _load_file(source, flag) if isinstance(source, Path) else dict(source)


def array_names(source: ArraySource) -> tuple[str, ...]:
    """Lists the names in a source that `load_arrays` has read."""
    if not isinstance(source, Path):
        return tuple(source)
    with np.load(source, allow_pickle=False) as archive:
        return tuple(archive.files)


def _load_file(path: Path, flag: str) -> dict[str, np.ndarray]:
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise _unreadable(path, flag, "it is a single array")
        with archive:
            _check_members(archive, path, flag)
            assert archive.zip is not None
            # by its member's whole name: numpy gives "x" for "x.npy" where the file has both
            arrays = {member.removesuffix(".npy"): archive[member] for member in archive.zip.namelist()}
    except UsageError:
        raise
    except (
        Exception
    ) as error:  # of a damaged file: numpy's, zipfile's, a decompressor's, or of Python's tokenizer
        raise _unreadable(path, flag, _reason(error)) from error
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):  # numpy gives other members of a zip file as bytes
            raise _unreadable(path, flag, f"its member {name!r} is not an array")
    return arrays


def as_declared(array: np.ndarray, dtype: str) -> np.ndarray:
    """Converts an array to the type that a model or engine declares, where the file could not name it.

    numpy writes bfloat16 and float8 as bytes without a type ("|V2", "|V1"), and reads them so. Anything else is given
    back as it is.
    """
    declared = np.dtype(dtype)
    nameless = array.dtype.kind == "V" and array.dtype.type is np.void and array.dtype.names is None
    if nameless and not declared.hasobject and array.dtype.itemsize == declared.itemsize:
        return array.view(declared)
    return array


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], flag: str) -> None:
    """Writes arrays by name to an .npz file, completely or not at all. Raises UsageError if it cannot be written."""
    try:
        with replacing(path) as descriptor, open(descriptor, "wb", closefd=False) as stream:
            write_npz(stream, arrays)
    except OSError as error:
        what = f"the outputs cannot be written: {error.strerror or error}"
        raise UsageError(
            what, f"{flag} {path}", "a writable file, and room for it", "name another file"
        ) from error


def write_npz(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays of any names as an .npz file: numpy.savez would take "file" for its own argument. Raises OSError.

    Other types than numpy's own (bfloat16, float8) become bytes without a type, as with numpy.savez: read them with
    `.view(ml_dtypes.bfloat16)`.
    """
    with zipfile.ZipFile(stream, "w", allowZip64=True) as archive:
        archive.comment = ARRAYS_COMMENT
        for name, array in arrays.items():
            plain = array.view(f"V{array.dtype.itemsize}") if array.dtype.kind == "V" else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(plain), allow_pickle=False)


def _check_members(archive: Any, path: Path, flag: str) -> None:
    """UsageError for arrays of one name, and for more than memory holds: a small file may unpack to any size."""
    names = archive.files
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _unreadable(path, flag, f"two of its arrays have the name {twice!r}")
    size = sum(member.file_size for member in archive.zip.infolist())
    memory = _memory()
    if size > memory:
        said = (
            f"its arrays take {size / 2**30:.1f} GiB, and this machine's memory is {memory / 2**30:.1f} GiB"
        )
        raise _unreadable(path, flag, said)


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_REASONS = {
    "Object arrays": "it holds Python objects, not numbers",
    "pickle": "it is not such a file",
    "not a zip file": "it is cut short, as by an interrupted copy",  # it begins as one, by which numpy takes it for one
    "No data left": "it is empty",
}
"""What is wrong with a file, by a part of numpy's error."""


def _reason(error: Exception) -> str:
    """Why numpy does not read a file. It takes for a pickle, which is never loaded, whatever it does not know."""
    said = str(error) or type(error).__name__
    if reasons := [reason for sign, reason in _REASONS.items() if sign in said]:
        return reasons[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return said if len(said) <= 300 else said[:297] + "..."


def _unreadable(path: Path, flag: str, reason: str) -> UsageError:
    what = f"the file cannot be read: {reason}"
    return UsageError(what, f"{flag} {path}", "an .npz file of arrays", "write it with numpy.savez")


def load_array(path: Path, flag: str) -> np.ndarray:
    """Loads the array of an .npy file. Raises UsageError if it cannot be read."""
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # as for load_arrays
        what = f"the file cannot be read: {_reason(error)}"
        raise UsageError(what, f"{flag} @{path}", "an .npy file", "write it with numpy.save") from error
    if not isinstance(array, np.ndarray):
        what = "the file holds several arrays"
        raise UsageError(what, f"{flag} @{path}", "an .npy file of one array", "write it with numpy.save")
    return array

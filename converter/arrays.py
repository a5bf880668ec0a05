"""Arrays from files that users name on the command line. Pickles are never loaded."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from converter.errors import UsageError
from importers.problem import Problem

_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    RuntimeError,
    NotImplementedError,
    MemoryError,
)


def load_arrays(path: Path, flag: str) -> dict[str, np.ndarray]:
    """Arrays by name from an .npz file. UsageError if it cannot be read. Pickles are never loaded."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise _unreadable(path, flag, "it is a single array")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds Python objects, not numbers" if "allow_pickle" in str(error) else str(error)
        raise _unreadable(path, flag, reason) from error
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray):  # numpy gives other members of a zip file as bytes
            raise _unreadable(path, flag, f"its member {name!r} is not an array")
    return arrays


def _unreadable(path: Path, flag: str, reason: str) -> UsageError:
    what = f"the file cannot be read: {reason}"
    return UsageError(Problem(what, f"{flag} {path}", "an .npz file of arrays", "write it with numpy.savez"))


def load_array(path: Path, flag: str) -> np.ndarray:
    """The array of an .npy file. UsageError if it cannot be read."""
    try:
        array = np.load(path, allow_pickle=False)
    except (*_UNREADABLE, zipfile.BadZipFile) as error:
        what = f"the file cannot be read: {error}"
        raise UsageError(
            Problem(what, f"{flag} @{path}", "an .npy file", "write it with numpy.save")
        ) from error
    if not isinstance(array, np.ndarray):
        what = "the file holds several arrays"
        raise UsageError(
            Problem(what, f"{flag} @{path}", "an .npy file of one array", "write it with numpy.save")
        )
    return array

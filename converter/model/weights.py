"""Maps weight files into memory, and checks that a model may refer to them."""

from __future__ import annotations

import errno
import gc
import hashlib
import mmap
import os
import resource
import shlex
import stat
import weakref
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import numpy.typing as npt

from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.base.options.suggestions import nearest

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # or opening a FIFO waits for a writer
_BLOCK = 1 << 24


class MappedFile:
    """A regular file, mapped read-only.

    The mapping lives as long as any array over it, the descriptor as long as this object. The descriptor
    stays open so that what is copied out of the file later is what was checked, even when another file has
    taken its name.
    """

    def __init__(self, path: Path) -> None:
        """Maps the file. Raises OSError, or ValueError if `path` is not a regular file (a FIFO does not block)."""
        self.path = path
        self.bytes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)  # uint8[size], read-only
        self._mapping: mmap.mmap | None = None
        try:
            self._map()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            # Graphs are cycles, and keep the files of models that nobody needs until they are collected.
            gc.collect()
            # Some exporters write a file for every tensor, thousands of them: ask for all descriptors there
            # are.
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            self._map()

    def _map(self) -> None:
        self.descriptor = os.open(self.path, _OPEN_FLAGS)
        weakref.finalize(self, os.close, self.descriptor)
        self.stat = os.fstat(self.descriptor)
        self.size = self.stat.st_size
        if not stat.S_ISREG(self.stat.st_mode):
            raise ValueError("not a regular file")
        if self.size:
            self._mapping = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
            self.bytes = np.frombuffer(self._mapping, np.uint8)
        self.bytes.flags.writeable = False

    def view(self) -> memoryview:
        return self.bytes.data

    def sha1(self) -> str:
        """Returns the SHA-1 of the whole file in hexadecimal, ONNX's checksum."""
        digest = hashlib.sha1(usedforsecurity=False)
        for start in range(0, self.size, _BLOCK):
            digest.update(self.view()[start : start + _BLOCK])
        return digest.hexdigest()

    def offset_of(self, array: npt.NDArray[np.generic]) -> int | None:
        """Returns the file offset of the data of `array`, or None if it is not in the file."""
        offset = array.ctypes.data - self.bytes.ctypes.data
        return offset if offset >= 0 and offset + array.nbytes <= self.size else None

    def release(self, array: npt.NDArray[np.generic]) -> None:
        """Releases the memory of the pages behind `array`; the next access reads them again."""
        offset = self.offset_of(array) if array.nbytes else None
        if offset is None or self._mapping is None:
            return
        page = mmap.PAGESIZE
        start, stop = -(-offset // page) * page, (offset + array.nbytes) // page * page
        if start < stop:
            self._mapping.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def is_at(self, path: Path) -> bool:
        """Tells whether `path` is this very file (by device and inode, so also through links)."""
        try:
            return os.path.samestat(self.stat, os.stat(path))
        except OSError:
            return False


def open_model_file(path: Path) -> MappedFile:
    """Maps the model file. Raises UsageError if it is missing or unreadable."""

    def refuse(what: str, fix: str) -> UsageError:
        return UsageError(what, str(path), "the path of an ONNX file", fix)

    try:
        return MappedFile(path)
    except FileNotFoundError:
        near = _nearest_model(path)
        fix = f"did you mean {near}?" if near else "check the path"
        raise refuse("The model file does not exist.", fix) from None
    except PermissionError:
        raise refuse(
            "The model file cannot be read: permission denied.", "give yourself read permission"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: not a regular file, or a NUL byte in the path
        if _is_folder(path):
            fix = f"name the .onnx file itself; `trtsmith batch {shlex.quote(str(path))}` converts all models of a folder"
            raise refuse("The model path is a folder.", fix) from None
        raise refuse(f"The model file cannot be opened: {error}.", "name the .onnx file itself") from None


def _nearest_model(path: Path) -> Path | None:
    """The model of the same folder whose name is closest, or None."""
    with suppress(OSError):
        models = [one.name for one in path.parent.iterdir() if one.suffix in (path.suffix, ".onnx")]
        near = nearest(path.name, models)
        return path.with_name(near) if near else None
    return None


def open_external_file(location: str, folder: Path, where: str) -> MappedFile:
    """Maps the external data file `location` of a model in `folder`; `where` describes the referring tensor.

    Raises ConversionError unless it is a regular file inside the folder, symlinks resolved, with no second name.
    """

    def refuse(what: str, fix: str) -> ConversionError:
        return ConversionError(what, where, f"a file inside {folder}, named relative to it", fix)

    shown = repr(location[:200])
    move = "keep the data file beside the model and save the model again with that file's name"
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    if not location or "\0" in location:
        raise refuse(f"The external data has no usable file name: {shown}.", move)
    if posix.is_absolute() or windows.is_absolute() or windows.drive:
        raise refuse(f"The external data file {shown} is an absolute path.", move)
    if ".." in posix.parts or ".." in windows.parts:
        raise refuse(f"The external data file {shown} leaves the model's folder.", move)
    try:
        resolved = (folder / location).resolve(strict=True)
        inside = resolved.is_relative_to(folder.resolve(strict=True))
    except FileNotFoundError:
        raise refuse(
            f"The external data file {shown} does not exist.", f"put {shown} beside the model"
        ) from None
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # RuntimeError: a loop of symlinks, before Python 3.13
        raise refuse(f"The external data file {shown} cannot be found: {error}.", move) from None
    if not inside:
        link = folder / location
        what = f"The external data file {shown} is a link to {resolved}, outside the model's folder."
        raise refuse(what, _own_file("cp -L", link) if link.is_symlink() and link.is_file() else move)
    try:
        file = MappedFile(resolved)
    except ValueError:
        raise refuse(f"The external data file {shown} is not a regular file.", move) from None
    except OSError as error:
        raise refuse(
            f"The external data file {shown} cannot be read: {error.strerror}.", "make it readable"
        ) from None
    if file.stat.st_nlink > 1:
        raise refuse(
            f"The external data file {shown} has {file.stat.st_nlink} names: it is a hard link, and another may lie outside "
            "the model's folder.",
            _own_file("cp", resolved),
        )
    return file


def _own_file(copy: str, path: Path) -> str:
    """The fix that puts a file of its own in the place of a link. copy: the command that copies what it names."""
    name, other = shlex.quote(str(path)), shlex.quote(f"{path}.copy")
    return f"make it a file of its own: {copy} {name} {other} && mv {other} {name}"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False

"""Keeps TensorRT-RTX's runtime cache, the kernels compiled on first use, in a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import unfinished_file
from trtsmith.converter.engine.runtime.loading import LoadedEngine

# Names that only TensorRT-RTX has; nothing here is reached with another flavour.
RTX_ONLY = frozenset(
    {"IRuntimeCache.deserialize", "IRuntimeCache.serialize", "IRuntimeConfig.create_runtime_cache"}
)


class RuntimeCache:
    """A cache object of TensorRT-RTX for all execution contexts of one engine, and its file."""

    def __init__(self, file: Path, runtime_cache: Any, before: bytes, warn: Callable[[str], None]) -> None:
        self.file = file
        self.runtime_cache = runtime_cache
        self._before = before
        self._warn = warn

    def save(self) -> None:
        """Writes the file, completely or not at all, if kernels were added. A full disk is a warning."""
        runtime_cache = self.runtime_cache
        try:
            data = bytes(memoryview(runtime_cache.serialize()))
        except TypeError:  # None, as after a kernel that failed: nothing in this process works any more
            self._warn(f"the runtime cache {self.file} is unchanged: TensorRT had nothing to write")
            return
        if data == self._before:
            return
        name = ""
        try:
            descriptor, name = unfinished_file(self.file.parent)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, self.file)
            self._before = data
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(name)
            self._warn(f"the runtime cache {self.file} could not be written: {error.strerror or error}")


def open_cache(
    loaded: LoadedEngine, path: Path, data: Any, version: str, warn: Callable[[str], None]
) -> RuntimeCache | None:
    """Opens the cache in a file, or in a folder with a file for each engine, GPU and version. data: the engine's bytes.

    A file that is damaged, or of another GPU or version, is a warning, and is written anew. None with a warning where
    TensorRT has no such cache. UsageError where the file could never be written.
    """
    if not loaded.flavour.is_rtx:
        warn(f"{loaded.flavour.title} has no runtime cache (TensorRT-RTX has): {path} is not used")
        return None
    file = _file_in(path, data, loaded.info.gpu, version) if path.is_dir() else path
    takeable = file.is_file() or not file.exists()  # a device or pipe must not be replaced by a file
    if not takeable or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise UsageError(
            "The runtime cache cannot be written.",
            f"--runtime-cache {path}",
            "a file in a folder that you may write",
            "name another file",
        )
    engine = loaded.engine
    runtime_config = engine.create_runtime_config()
    runtime_cache = runtime_config.create_runtime_cache()
    before = b""
    try:
        before = file.read_bytes()
    except FileNotFoundError:
        pass
    except OSError as error:
        warn(f"the runtime cache {file} cannot be read and is replaced: {error.strerror or error}")
    if before and not _take(runtime_cache, before):
        said = " ".join(loaded.log.take_errors())
        warn(
            f"the runtime cache {file} is damaged, or of another GPU, driver or version, and is replaced. {said}".strip()
        )
    return RuntimeCache(file, runtime_cache, before, warn)


def _take(runtime_cache: Any, data: bytes) -> bool:
    try:
        return bool(runtime_cache.deserialize(data))
    except (RuntimeError, TypeError, ValueError):
        return False


def _file_in(folder: Path, data: Any, gpu: str, version: str) -> Path:
    digest = hashlib.sha256(data).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9]+", "-", gpu).strip("-").lower()
    return folder / f"{digest}-{name}-{version}.cache"

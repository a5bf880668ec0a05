"""Says where a cache lies, and how the files in it are called."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from trtsmith.converter.compile.sdk import cache_folder

VARIABLE = "TRTSMITH_CACHE"

OBJECTS, ENTRIES, TEMPORARY = "objects", "entries", "tmp"

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PREFIX = "trtsmith-"


def default_folder(environment: Mapping[str, str], home: Path) -> Path:
    """$TRTSMITH_CACHE; else `batch` in the folder where trtsmith keeps what it fetches."""
    named = environment.get(VARIABLE, "")
    if named:
        return Path(os.path.abspath(named))
    return cache_folder(home, environment.get("XDG_CACHE_HOME", "")) / "batch"


def is_digest(text: object) -> bool:
    """Whether it is a SHA-256 as keys and names of blobs have it: 64 digits, none of them a capital."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def blob_path(cache: Path, sha256: str) -> Path:
    return cache / OBJECTS / sha256[:2] / sha256


def entry_path(cache: Path, key: str) -> Path:
    return cache / ENTRIES / key[:2] / f"{key}.json"


def temporary_path(cache: Path) -> Path:
    """A name that no other process on any machine takes, in the cache's own file system. Its folder is made."""
    folder = cache / TEMPORARY
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_PREFIX}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


def all_blobs(cache: Path) -> Iterator[tuple[str, Path]]:
    """(SHA-256 by name, path) of everything that has the name of a blob."""
    for path in _two_deep(cache / OBJECTS):
        if is_digest(path.name) and path.parent.name == path.name[:2]:
            yield path.name, path


def all_entries(cache: Path) -> Iterator[tuple[str, Path]]:
    """(key, path) of everything that has the name of an entry."""
    for path in _two_deep(cache / ENTRIES):
        if path.suffix == ".json" and is_digest(path.stem) and path.parent.name == path.stem[:2]:
            yield path.stem, path


def all_temporaries(cache: Path) -> Iterator[Path]:
    for path in _in_folder(cache / TEMPORARY):
        if path.name.startswith(_PREFIX):
            yield path


def _two_deep(folder: Path) -> Iterator[Path]:
    for inner in _in_folder(folder):
        if len(inner.name) == 2 and not inner.is_symlink():
            yield from _in_folder(inner)


def _in_folder(folder: Path) -> Iterator[Path]:
    """Nothing of a folder that is not there, or is none. PermissionError of one that may not be read."""
    try:
        with os.scandir(folder) as found:
            paths = sorted(Path(entry.path) for entry in found)
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from paths

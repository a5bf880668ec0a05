"""Cuts an archive of files into numbered chunks of a given size, and restores it. Standard library only."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from trtsmith.importers.problem import Problem

INDEX = "index.json"
PRESET: Final = 6
"""Of xz. TensorRT-RTX 1.6.1's library of 227 MB: 91 MB in its wheel, 71 MB at 3, 66 MB at 6."""


class BundleError(Exception):
    """Raised if a bundle cannot be packed or unpacked, with a problem in four parts."""

    def __init__(self, what: str, where: object, expected: str, fix: str) -> None:
        self.problem = Problem(what, str(where), expected, fix)
        super().__init__(str(self.problem))


@dataclass(frozen=True)
class Part:
    """A piece of the archive, in a file of one chunk. size: in bytes. Every chunk's index lists all parts."""

    name: str
    size: int
    sha256: str


def pack(files: Mapping[str, Path], folder: Path, chunk_bytes: int) -> list[Path]:
    """Writes the files, by path in the bundle, as folder/chunk-1, chunk-2, ... Returns these folders.

    Each chunk has the index and one part of at most chunk_bytes. Chunks that lie there already are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chunks: list[Path] = []
    parts: list[Part] = []
    with tempfile.TemporaryFile(dir=folder) as stream:
        with tarfile.open(fileobj=stream, mode="w:xz", preset=PRESET, dereference=True) as archive:
            for path, source in files.items():
                archive.add(source, path)
        stream.seek(0)
        for old in folder.glob("chunk-*"):
            shutil.rmtree(old)
        while data := stream.read(chunk_bytes):
            parts.append(Part(f"part-{len(parts) + 1:03d}", len(data), hashlib.sha256(data).hexdigest()))
            chunks.append(folder / f"chunk-{len(parts)}")
            chunks[-1].mkdir()
            (chunks[-1] / parts[-1].name).write_bytes(data)
    text = json.dumps({"parts": list(map(asdict, parts))}, indent=1) + "\n"
    for chunk in chunks:
        (chunk / INDEX).write_text(text, encoding="utf-8")
    return chunks


def read_index(path: Path) -> list[Part]:
    """The parts in an index. Raises BundleError if it is invalid."""
    try:
        parts = [Part(**part) for part in json.loads(path.read_text(encoding="utf-8"))["parts"]]
        if not all(re.fullmatch(r"part-\d{3,}", part.name) for part in parts):
            raise ValueError("a name that no part has")
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"The index of a chunk cannot be read: {type(error).__name__}: {error}"
        expected = f"the {INDEX} that `gpu_bundle.py pack` wrote"
        raise BundleError(what, path, expected, "copy the chunk again") from error
    return parts


def collect(folders: Sequence[Path], store: Path) -> tuple[list[Part], list[str]]:
    """Copies the parts in these folders into `store`. Returns all parts, and the names of missing ones.

    BundleError for a damaged part, a chunk of another bundle, or where no chunk has come yet.
    """
    store.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        parts = read_index(folder / INDEX)
        if not (store / INDEX).exists():
            _write(store / INDEX, (folder / INDEX).read_bytes())
        elif read_index(store / INDEX) != parts:
            raise BundleError(
                "The chunk belongs to another bundle than those that came before.",
                folder / INDEX,
                "chunks that one call of `gpu_bundle.py pack` wrote",
                "name another folder with --to, or delete that one",
            )
        for part in parts:
            if (folder / part.name).is_file():
                _take(folder / part.name, part, store / part.name)
    parts = read_index(store / INDEX)
    return parts, [part.name for part in parts if not (store / part.name).is_file()]


def _take(source: Path, part: Part, target: Path) -> None:
    data = source.read_bytes()
    if hashlib.sha256(data).hexdigest() != part.sha256:
        size = len(data)
        what = f"has {size} bytes instead of {part.size}" if size != part.size else "has another SHA-256"
        said = f"A part of the bundle is damaged: it {what}."
        raise BundleError(said, source, f"SHA-256 {part.sha256}", "copy the chunk again")
    _write(target, data)


def _write(target: Path, data: bytes) -> None:
    """Writes a file that gets its name only when complete."""
    partial = target.with_name(target.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, target)


def restore(parts: Sequence[Part], store: Path, folder: Path) -> None:
    """Writes the bundle's files below `folder`, from the parts in `store`. Raises BundleError for a path that leads out of
    it.
    """
    with tempfile.TemporaryFile(dir=store) as stream:
        for part in parts:
            with (store / part.name).open("rb") as file:
                shutil.copyfileobj(file, stream)
        stream.seek(0)
        try:
            with tarfile.open(fileobj=stream, mode="r:xz") as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            what = f"The bundle is not what was packed: {error}"
            raise BundleError(what, store, "an archive of files", "pack the bundle again") from error

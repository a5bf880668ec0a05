"""Cuts files into numbered chunks of a given size, and puts them together again. Standard library only."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpubundle.index import INDEX, BundleError, Entry, Index, Part, file_hash, read_index
from trtsmith.importers.problem import Problem

BLOCK = 1 << 20
PRESET = 6
"""Of xz. TensorRT-RTX 1.6.1's library of 227 MB: 91 MB in its wheel, 71 MB at 3, 66 MB at 6."""


def pack(files: Mapping[str, Path], folder: Path, chunk_bytes: int) -> list[Path]:
    """Write the files, by their paths in the bundle, as folder/chunk-1, chunk-2, ... Returns these folders.

    Each chunk has the index and one part of at most chunk_bytes. Chunks that lie there already are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".packing-") as name:
        work = Path(name)
        entries, stream = [], work / "stream"
        with stream.open("wb") as out:
            for path, source in files.items():
                before = out.tell()
                with lzma.open(out, "wb", preset=PRESET) as squeezed, source.open("rb") as plain:
                    shutil.copyfileobj(plain, squeezed, BLOCK)
                entries.append(Entry(path, source.stat().st_size, file_hash(source), out.tell() - before))
        parts = list(_cut(stream, work, chunk_bytes))
        text = Index(tuple(parts), tuple(entries)).to_text()
        for old in folder.glob("chunk-*"):
            shutil.rmtree(old)
        return [_chunk(folder / f"chunk-{i}", work / part.name, text) for i, part in enumerate(parts, 1)]


def _cut(stream: Path, work: Path, chunk_bytes: int) -> Iterator[Part]:
    with stream.open("rb") as file:
        number = 0
        while data := file.read(chunk_bytes):
            number += 1
            name = f"part-{number:03d}"
            (work / name).write_bytes(data)
            yield Part(name, len(data), hashlib.sha256(data).hexdigest())


def _chunk(folder: Path, part: Path, index: str) -> Path:
    folder.mkdir()
    os.replace(part, folder / part.name)
    (folder / INDEX).write_text(index, encoding="utf-8")
    return folder


def collect(folders: Sequence[Path], store: Path) -> tuple[Index, list[str]]:
    """Copy the parts in these folders into `store`. Returns the index and the names of the parts still missing.

    BundleError for a damaged part, a chunk of another bundle, or where no chunk has come yet.
    """
    store.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        index = read_index(folder / INDEX)
        _same_bundle(folder / INDEX, index, store / INDEX)
        for part in index.parts:
            if (folder / part.name).is_file():
                _take(folder / part.name, part, store / part.name)
    index = read_index(store / INDEX)
    return index, [part.name for part in index.parts if not (store / part.name).is_file()]


def _same_bundle(path: Path, index: Index, stored: Path) -> None:
    if not stored.exists():
        with _replacing(stored) as file:
            file.write(index.to_text().encode())
    elif read_index(stored) != index:
        raise BundleError(
            Problem(
                "The chunk belongs to another bundle than those that came before.",
                str(path),
                "chunks that one call of `gpu_bundle.py pack` wrote",
                "name another folder with --to, or delete that one",
            )
        )


def _take(source: Path, part: Part, target: Path) -> None:
    size = source.stat().st_size
    if size != part.size or file_hash(source) != part.sha256:
        what = f"has {size} bytes instead of {part.size}" if size != part.size else "has another SHA-256"
        raise BundleError(
            Problem(
                f"A part of the bundle is damaged: it {what}.",
                str(source),
                f"SHA-256 {part.sha256}",
                "copy the chunk again",
            )
        )
    with _replacing(target) as out, source.open("rb") as file:
        shutil.copyfileobj(file, out, BLOCK)


def restore(index: Index, store: Path, folder: Path) -> None:
    """Write all files of the bundle below `folder`, from the parts in `store`, and check each of them."""
    with tempfile.TemporaryFile(dir=store) as stream:
        for part in index.parts:
            with (store / part.name).open("rb") as file:
                shutil.copyfileobj(file, stream, BLOCK)
        offset = 0
        for entry in index.entries:
            stream.seek(offset)
            _restore_one(entry, stream, folder / entry.path)
            offset += entry.packed


def _restore_one(entry: Entry, stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    squeezed, digest, size, left = lzma.LZMADecompressor(), hashlib.sha256(), 0, entry.packed
    problem = ""
    with _replacing(target) as out:
        try:
            while left and size <= entry.size:
                block = stream.read(min(BLOCK, left))
                left -= len(block)
                data = squeezed.decompress(block)
                size += len(data)
                digest.update(data)
                out.write(data)
        except (lzma.LZMAError, EOFError) as error:
            problem = str(error)
        if problem or size != entry.size or digest.hexdigest() != entry.sha256:
            raise BundleError(
                Problem(
                    f"A file of the bundle is not what was packed: {problem or 'another SHA-256'}.",
                    entry.path,
                    f"{entry.size} bytes, SHA-256 {entry.sha256}",
                    "pack the bundle again",
                )
            )


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name, which takes its own when it is complete."""
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            yield file
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)

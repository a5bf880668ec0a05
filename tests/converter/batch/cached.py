"""Makes results of tasks as an executor leaves them: a folder with files, and a record that names them."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from trtsmith.converter.batch.store import INDEX, OBJECTS, TEMPORARY
from trtsmith.converter.batch.task import FileFacts, TaskRecord, TaskStatus

ENGINE = b"an engine" * 20


def key_of(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def facts_of(data: bytes) -> FileFacts:
    return FileFacts(hashlib.sha256(data).hexdigest(), len(data))


def result(
    folder: Path,
    key: object = 0,
    files: Mapping[str, bytes] | None = None,
    status: TaskStatus = TaskStatus.AGREE,
) -> TaskRecord:
    """Write the files, and give their record. key: what the key is made of."""
    files = {"model.plan": ENGINE} if files is None else files
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    facts = {name: facts_of(data) for name, data in files.items()}
    return TaskRecord("net/fp16", "net", {"precision": "fp16"}, status, key=key_of(key), files=facts)


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names_of_blobs(cache: Path) -> set[str]:
    return {path.name for path in (cache / OBJECTS).glob("??/*")}


def left_behind(cache: Path) -> list[Path]:
    return list((cache / TEMPORARY).glob("trtsmith-*"))


def change(cache: Path, statement: str, *values: object) -> None:
    """Change the index of a cache by hand."""
    with contextlib.closing(sqlite3.connect(cache / INDEX)) as index:
        index.execute(statement, values)
        index.commit()

"""Reads and writes the entries of a cache: records by key. What is read may have been written by anybody."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.cache.file_hashes import open_regular
from trtsmith.converter.batch.cache.layout import entry_path, is_digest, temporary_path
from trtsmith.converter.batch.task_record import RECORD, FileFacts, TaskRecord

_MOST_BYTES = 64 << 20
"""A record of a network of 10,000 nodes has a few MiB."""


class DamagedEntry(Exception):  # noqa: N818  what is found, and mended by doing the work again
    """It is no record, or not this key's. The text says what is wrong."""


@dataclass(frozen=True)
class ReadEntry:
    """An entry as it was read. used: when it was last, in seconds since 1970. state: another one, and it was replaced."""

    record: TaskRecord
    bytes: int
    used: float
    state: tuple[int, ...]


def read_entry(cache: Path, key: str) -> ReadEntry:
    """FileNotFoundError, another OSError for a file that may not be read, or DamagedEntry."""
    path = entry_path(cache, key)
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink() or not path.is_file():
            raise DamagedEntry("it is no regular file") from error
        raise
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise DamagedEntry(f"it has more than {_MOST_BYTES >> 20} MiB")
    try:
        record = _checked(TaskRecord.from_json(_object(json.loads(data.decode("utf-8")))), key)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}"
        raise DamagedEntry(said if len(said) <= 200 else f"{said[:197]}...") from error
    return ReadEntry(record, len(data), found.st_mtime, entry_state(found))


def entry_state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size


def write_entry(cache: Path, record: TaskRecord) -> None:
    """Put the record there, whole or not at all. OSError where that fails."""
    target, temporary = entry_path(cache, record.key), temporary_path(cache)
    data = json.dumps(record.to_json()).encode()
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def check_keepable(record: TaskRecord) -> None:
    """ValueError or TypeError for a record that no cache may hold."""
    _checked(record, record.key)


def _checked(record: TaskRecord, key: str) -> TaskRecord:
    if record.key != key or not is_digest(key):
        raise ValueError(f"its key is {record.key!r:.80}")
    if not record.status.settled:
        raise ValueError(f"its status is {record.status.value!r}, which says nothing of the next time")
    for text in (record.name, record.model, *record.command, *record.warnings):
        _text(text)
    for name, facts in record.files.items():
        _check_file(name, facts)
    for one in (record.variant, record.seconds, record.place, record.versions):
        _object(one)
    for part, value in (("report", record.report), ("bench", record.bench)):
        if value is not None and not isinstance(value, dict):
            raise TypeError(f"its {part} is no object")
    for text in (*record.variant.values(), *record.versions.values()):
        _text(text)
    for problem in record.problems:
        for text in problem.to_json().values():
            _text(text)
    for number in (*record.seconds.values(), record.peak_mib, record.attempts):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise TypeError(f"{number!r:.80} is no number")
    _text(record.began)
    return record


def _check_file(name: str, facts: FileFacts) -> None:
    """A record names files that lie beside it, and no others."""
    plain = name not in ("", ".", "..", RECORD) and not any(c in name for c in "/\\\0") and len(name) < 256
    if not plain or not name.isprintable():
        raise ValueError(f"{name!r:.80} is no plain file name")
    if not is_digest(facts.sha256):
        raise ValueError(f"{facts.sha256!r:.80} is no SHA-256")
    if type(facts.bytes) is not int or not 0 <= facts.bytes < 2**63:
        raise ValueError(f"{facts.bytes!r:.80} is no size")


def _text(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{value!r:.80} is no object")
    return value

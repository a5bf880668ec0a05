"""Describes the files of a bundle, and the parts into which their bytes are cut. Standard library only."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trtsmith.importers.problem import Problem

INDEX = "index.json"
FORMAT = 1


class BundleError(Exception):
    """A bundle cannot be packed or unpacked; the problem says why in four parts."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


@dataclass(frozen=True)
class Part:
    """One file of a chunk: a run of the bundle's bytes. size: in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One file of the bundle. path: relative to the unpacked folder, with slashes.

    size, sha256: of the file as it is unpacked, in bytes. packed: bytes that it takes among those of the parts, where
    it lies compressed with xz.
    """

    path: str
    size: int
    sha256: str
    packed: int


@dataclass(frozen=True)
class Index:
    """All chunks of a bundle have the same index; part number i, from 1, lies in chunk-i."""

    parts: tuple[Part, ...]
    entries: tuple[Entry, ...]

    def to_text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def read_index(path: Path) -> Index:
    """The index in a file. BundleError if it is none, or names a file outside the folder."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} instead of {FORMAT}")
        parts = tuple(
            Part(_name(p["name"]), _count(p["size"]), _hash(p["sha256"])) for p in document["parts"]
        )
        entries = tuple(
            Entry(_inside(e["path"]), _count(e["size"]), _hash(e["sha256"]), _count(e["packed"]))
            for e in document["entries"]
        )
        if sum(part.size for part in parts) != sum(entry.packed for entry in entries):
            raise ValueError("the parts are not as large as the files in them")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(
            Problem(
                f"The index of a chunk cannot be read: {type(error).__name__}: {error}",
                str(path),
                f"the {INDEX} that `gpu_bundle.py pack` wrote",
                "copy the chunk again",
            )
        ) from error
    return Index(parts, entries)


def file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"part-\d{3}", value):
        raise ValueError(f"{value!r} is no name of a part")
    return value


def _inside(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*", value):
        raise ValueError(f"{value!r} is no path of a file in a bundle")
    if {".", ".."} & set(value.split("/")):
        raise ValueError(f"{value!r} leads out of the bundle")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number of bytes")
    return value


def _hash(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value

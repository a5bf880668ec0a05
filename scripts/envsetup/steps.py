"""Remembers finished set-up steps by stamps of their inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from envsetup import ROOT
from trtsmith.converter.compile.logged import SetupError
from trtsmith.importers.problem import Problem


def setup_error(what: str, where: str, expected: str, fix: str) -> SetupError:
    return SetupError(Problem(what, where, expected, fix))


def digest(parts: Iterable[str | bytes | Path]) -> str:
    """SHA-256 of strings and file contents; a Path also contributes its name relative to the repository."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            name = part.relative_to(ROOT) if part.is_relative_to(ROOT) else part
            data = str(name).encode() + b"\0" + hashlib.sha256(part.read_bytes()).digest()
        else:
            data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def source_files(folder: Path) -> list[Path]:
    """Every file below a folder, sorted, without leftovers of editors and Python."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    )


class Stamps:
    """The record of finished steps in a JSON file: step name to the digest of its inputs."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fresh(self, step: str, inputs: str) -> bool:
        return self._read().get(step) == inputs

    def marked(self, step: str) -> list[str]:
        """The inputs with which the step last finished, as a list of one or none."""
        marks = self._read()
        return [marks[step]] if step in marks else []

    def mark(self, step: str, inputs: str) -> None:
        marks = self._read() | {step: inputs}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(marks, indent=1, sort_keys=True) + "\n")
        new.replace(self._file)

    def _read(self) -> dict[str, str]:
        try:
            marks = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in marks.items()} if isinstance(marks, dict) else {}

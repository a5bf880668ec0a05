"""Takes in what a task on another machine gives: its record, and its files piece by piece."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.execution import TaskEnd
from trtsmith.converter.batch.fleet.node_task import FilePart
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import FileFacts, TaskRecord, is_below


class DamagedResult(Exception):  # noqa: N818  it is mended by doing the task again
    """What came is not what the record says."""


class ResultIntake:
    """The result of one attempt. folder: an existing one, in which the result's is made."""

    def __init__(self, task: BatchTask, folder: Path) -> None:
        self._task = task
        self._parent = folder
        self._folder: Path | None = None
        self._record: TaskRecord | None = None
        self._found: dict[str, FileFacts] = {}
        self._name = ""
        self._digest = hashlib.sha256()
        self._size = 0

    def take_record(self, document: Mapping[str, Any]) -> None:
        self._record = TaskRecord.from_json(document)

    def take_part(self, part: FilePart) -> None:
        """OSError where it cannot be written; DamagedResult for a file that the record does not know."""
        if self._record is None or part.name not in self._record.files or not is_below(part.name):
            raise DamagedResult(f"the file {part.name!r} came, which no record names")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=self._parent))
        if part.name != self._name:
            self._close_file()
            self._name = part.name
        path = self._folder / part.name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = memoryview(part.data)
        with open(path, "ab") as file:
            file.write(data)
        self._digest.update(data)
        self._size += len(data)

    def _close_file(self) -> None:
        if self._name:
            self._found[self._name] = FileFacts(self._digest.hexdigest(), self._size)
        self._name, self._digest, self._size = "", hashlib.sha256(), 0

    def ended(self, attempts: int) -> TaskEnd:
        """The result, of which all has come. DamagedResult where it has not."""
        self._close_file()
        if self._record is None:
            raise DamagedResult("the task ended without a record")
        empty = FileFacts(hashlib.sha256().hexdigest(), 0)
        for name, facts in self._record.files.items():
            if facts == empty and name not in self._found and is_below(name):
                self._add_empty(name)
            if self._found.get(name, facts if facts == empty else None) != facts:
                raise DamagedResult(f"{name} is not what its record says")
        folder, self._folder = self._folder, None
        record = replace(self._record, attempts=attempts)
        return TaskEnd(self._task, record, folder)

    def _add_empty(self, name: str) -> None:
        """A file without content has no pieces."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=self._parent))
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def discard(self) -> None:
        """Remove what has come."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

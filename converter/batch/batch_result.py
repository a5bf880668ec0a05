"""The outcome of a batch as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.task_record import RECORD, TaskRecord, TaskStatus
from trtsmith.converter.model.errors import EXIT_DISAGREE, EXIT_FAILED, EXIT_OK


@dataclass(frozen=True)
class BatchResult:
    """The tasks of a batch, by their names, in the order of the zoo.

    folder:   with a folder for each task that has ended, results.json, junit.xml and index.html.
    statuses: how each ended.
    sources:  where it came from: "run", "cache", or "kept" from an earlier batch.
    seconds:  that all took together.
    signal:   the number of the signal that ended it before everything was done; 0 for none.
    """

    folder: Path
    statuses: Mapping[str, TaskStatus]
    sources: Mapping[str, str]
    seconds: float
    signal: int = 0

    @property
    def passed(self) -> bool:
        """Whether there is an engine of each task that nothing speaks against."""
        return self.exit_code == EXIT_OK

    @property
    def exit_code(self) -> int:
        """0: all passed. 1: one has no engine, or did not end. 3: all have one, and one disagrees. 128 + the signal."""
        if self.signal:
            return 128 + self.signal
        if all(status.passed for status in self.statuses.values()):
            return EXIT_OK
        others = {status for status in self.statuses.values() if not status.passed}
        return EXIT_DISAGREE if others == {TaskStatus.DISAGREE} else EXIT_FAILED

    def records(self) -> Iterator[TaskRecord]:
        """The record of each task that has ended, read from its folder one after another: they can be large."""
        for name, status in self.statuses.items():
            if status is not TaskStatus.CANCELLED:
                yield TaskRecord.from_json(json.loads((self.folder / name / RECORD).read_bytes()))

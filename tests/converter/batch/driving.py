"""Drives batches of tasks whose worker obeys their words; also runs as a separate program that tests can kill."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.converter.batch.workers import NAME, task, write_worker
from trtsmith.converter.batch.child import ChildSetup
from trtsmith.converter.batch.driver import BatchRequest, BatchResult, run_batch
from trtsmith.converter.batch.local import LocalExecutor
from trtsmith.converter.batch.machine import MachineFacts
from trtsmith.converter.batch.task import BatchTask, Event, Needs, TaskRecord

MACHINE = MachineFacts(versions={"trtsmith": "1"}, flavours={"tensorrt_rtx": "1.7"}, rules="r")


class Told:
    """A BatchListener that keeps what it is told."""

    def __init__(self) -> None:
        self.total = 0
        self.events: list[Event] = []
        self.ends: list[tuple[str, str, str]] = []

    def planned(self, total: int) -> None:
        self.total = total

    def event(self, event: Event) -> None:
        self.events.append(event)

    def ended(self, record: TaskRecord, source: str) -> None:
        self.ends.append((record.name, record.status.value, source))


def known(home: Path, name: str, *words: object, needs: Needs | None = None) -> BatchTask:
    """A task whose model is a file, so that it has a key. home: a folder for these."""
    source = home / "models" / f"{name.partition('/')[0]}.onnx"
    source.parent.mkdir(exist_ok=True)
    if not source.exists():
        source.write_text(name)
    return replace(task(name, *words, source=str(source), needs=needs), files=(source,))


def drive(
    home: Path,
    tasks: Sequence[BatchTask],
    *,
    jobs: int = 1,
    cache: bool = False,
    told: Told | None = None,
    **more: Any,
) -> BatchResult:
    """Run them into home/out, with a cache in home/cache."""
    write_worker(home)
    setup = ChildSetup(NAME, [home])
    request = BatchRequest(
        tasks,
        home / "out",
        cache=home / "cache" if cache else None,
        executor=lambda scratch: LocalExecutor(scratch, setup, jobs=jobs, machine=MACHINE, gpus=()),
        **more,
    )
    return run_batch(request, told or Told(), print)


def main() -> None:
    """HOME TASKS: the last is JSON, a list of [name, word, ...]."""
    home = Path(sys.argv[1])
    sys.exit(drive(home, [known(home, *words) for words in json.loads(sys.argv[2])]).exit_code)


if __name__ == "__main__":
    main()

"""Runs one task after another in a process that lives from task to task; whatever happens to it becomes a record."""

from __future__ import annotations

import itertools
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.execution import Event, Listener, TaskEnd
from trtsmith.converter.batch.plain_data import with_text
from trtsmith.converter.batch.run.not_run import command_of
from trtsmith.converter.batch.run.process_watch import ProcessWatch
from trtsmith.converter.batch.run.task_outcome import (
    TaskOutcome,
    cancelled,
    outcome_of,
    without_room,
)
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.task_record import FileFacts, TaskRecord
from trtsmith.converter.engine.bundle.bundle import file_digest
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.operators.sources import VARIABLE

WORKER = "trtsmith.converter.cli.batch_worker"
"""By its name: the command line is above this package."""

STARTING = "starting"
"""The step before a task's process has said anything."""

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


class TaskRunner:
    """Runs tasks, in a with statement: at its end no process of it is left, and no file but what it has given away.

    folder:      an existing folder in which everything is that a task writes, temporary files too. Results are handed out
        as folders in it, so that who takes them moves them where they belong.
    gpu:         the name of the GPU that it may use, for records; "" for none.
    environment: variables for the processes: CUDA_VISIBLE_DEVICES for a GPU. Without one they see no GPU, wherever they run.
    worker:      the module that does the work; paths: folders in which Python finds it.
    cwd:         the folder in which modules are found that tasks name; None: none.

    `run` is for one thread, which must live as long as the runner is used: Linux ends a process with the thread that
    started it. `stop` is for any.
    """

    def __init__(
        self,
        folder: Path,
        *,
        gpu: str = "",
        environment: Mapping[str, str] = NO_GPU,
        worker: str = WORKER,
        paths: Sequence[Path] = (),
        cwd: Path | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="runner-", dir=folder.absolute()))
        self._results = self._made("results")
        self._temporary = self._made("tmp")
        self._reports = self._made("reports")
        self._gpu = gpu
        self._cwd = str(cwd or "")
        self._pool = Pool(
            worker,
            environment={**_operators(), **environment, "TMPDIR": str(self._temporary)},
            paths=paths,
            folder=self._folder,
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stopped = False
        self._watch: ProcessWatch | None = None

    def _made(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir()
        return folder

    def __enter__(self) -> TaskRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()
        shutil.rmtree(self._temporary, ignore_errors=True)
        shutil.rmtree(self._reports, ignore_errors=True)
        for folder in (self._results, self._folder):  # results that nobody has taken yet stay
            if not any(folder.iterdir()):
                folder.rmdir()

    def stop(self) -> None:
        """The task that runs, and every later one, ends as cancelled."""
        with self._lock:
            self._stopped = True
            if self._watch is not None:
                self._watch.stop()

    def run(self, task: BatchTask, listener: Listener) -> TaskEnd:
        """Do a task. Raises nothing: what goes wrong is in the record."""
        began, started = datetime.now(timezone.utc), time.monotonic()
        needs, mark = task.needs, f"TMPDIR={self._temporary}"
        watch = ProcessWatch(self._pool.processes, needs.memory_mib, needs.timeout_s, mark)
        folder: Path | None = None
        files: dict[str, FileFacts] = {}
        try:
            folder = self._results / str(next(self._numbers))
            folder.mkdir()  # and not as a temporary one, which nobody else may read
            outcome = self._ask(task, folder, watch, listener)
            files = _files(folder)
        except OSError as error:
            outcome = without_room(task, error)
        if not files and folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            folder = None
        record = TaskRecord(
            name=task.name,
            model=task.model,
            variant=dict(task.variant),
            status=outcome.status,
            command=command_of(task),
            files=files,
            report=outcome.report,
            bench=outcome.bench,
            problems=outcome.problems,
            warnings=outcome.warnings,
            seconds={**outcome.seconds, "total": round(time.monotonic() - started, 3)},
            peak_mib=round(watch.peak_mib, 1),
            place={"host": platform.node(), "gpu": self._gpu, "pid": watch.pid},
            versions=outcome.versions,
            began=began.isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
        return TaskEnd(task, record, folder)

    def _ask(self, task: BatchTask, folder: Path, watch: ProcessWatch, listener: Listener) -> TaskOutcome:
        with self._lock:
            if self._stopped:
                return cancelled(task)
            self._watch = watch
        host = platform.node()
        listener(Event(task.name, STARTING, step=STARTING, place=host))

        def tell(_: None, event: Mapping[str, Any]) -> None:
            if event["event"] == "progress":
                text = str(event.get("text", ""))
                step, share = str(event.get("step", text)), event.get("share")
                listener(Event(task.name, text, step=step, share=share, place=host))

        request = json.dumps(self._request(task, folder))
        try:
            with watch:
                ((_, answer),) = self._pool.run(deque([(None, request)]), on_event=tell)
        finally:
            with self._lock:
                self._watch = None
        if not self._pool.processes():  # what it left behind is nobody's
            _empty(self._temporary)
            _empty(self._reports)
        # it is not where the files stay: paths in it are relative
        answer = replace(answer, found=with_text(answer.found, f"{folder}/", ""))
        return outcome_of(task, answer, watch.reached, watch.peak_mib)

    def _request(self, task: BatchTask, folder: Path) -> dict[str, Any]:
        return {
            "name": task.name,
            "source": task.source,
            "words": list(task.words),
            "bench": None if task.bench is None else list(task.bench),
            "folder": str(folder),
            "reports": str(self._reports),
            "cwd": self._cwd,
        }


def _operators() -> dict[str, str]:
    """The user's TRTSMITH_OPS, which the environment of a child has only where its packages are in force here."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def _files(folder: Path) -> dict[str, FileFacts]:
    """Every file in a folder, by its path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): FileFacts(
            file_digest(path).removeprefix("sha256:"), path.stat().st_size
        )
        for path in paths
    }


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)

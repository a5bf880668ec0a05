"""Runs tasks one after another in a supervised child process, and turns every outcome into a record."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

from trtsmith.converter.base.errors import (
    EXIT_DISAGREE,
    EXIT_FAILED,
    EXIT_NOT_COMPARED,
    EXIT_OK,
    TrtsmithError,
)
from trtsmith.converter.batch.file_hashes import changed
from trtsmith.converter.batch.machine import VARIABLES, MachineFacts
from trtsmith.converter.batch.task import (
    BatchTask,
    Event,
    EventListener,
    FileFacts,
    TaskEnd,
    TaskRecord,
    TaskStatus,
    cancelled,
    record_of,
)
from trtsmith.converter.engine.bundle.bundle import file_digest
from trtsmith.converter.engine.child.pool import Outcome, Pool
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.operators import used_files
from trtsmith.converter.operators.sources import VARIABLE
from trtsmith.importers.problem import Problem

PERIOD_S = 0.2
"""Between two looks, each of which takes 1.5 ms where 100 processes run."""

_FREEZE_S, _FREEZE_TRIES = 0.002, 100
"""A signal is heard when the system call that a process is in ends."""

_AT_REST = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class LimitReached(Enum):
    """The reason why processes were ended."""

    TIME = "time"
    MEMORY = "memory"
    ASKED = "asked"


class ProcessWatch:
    """Watches processes and their descendants from a thread, as a context manager.

    roots:      gives the processes that are watched; they may come late.
    memory_mib: the most that they may take together, of what is resident; None: no limit.
    timeout_s:  how long they may take, from now; None: no limit.
    mark:       a variable of their environment, as NAME=VALUE, that no other process has: by it those are found that have
        left their session and their parents. "": there is none.

    reached:  the limit for which they were ended, if any.
    peak_mib: the most memory that was seen. What lies in the same pages of several processes counts in each.
    pid:      of the root that was seen last; 0 for none.
    """

    def __init__(
        self,
        roots: Callable[[], Sequence[int]],
        memory_mib: float | None,
        timeout_s: float | None,
        mark: str = "",
    ) -> None:
        self.reached: LimitReached | None = None
        self.peak_mib = 0.0
        self.pid = 0
        self._roots = roots
        self._mark = mark
        self._memory_mib = memory_mib
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._seen: dict[int, psutil.Process] = {}  # that descend from the roots, and may outlive them
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="process watch", daemon=True)

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Looks once more, and ends processes that outlived their task."""
        self._over.set()
        self._thread.join()
        with self._lock:
            self._look()
            _kill([*self._seen.values(), *_marked(self._mark, self._roots())])

    def stop(self) -> None:
        """Ends the processes on request."""
        with self._lock:
            self.reached = self.reached or LimitReached.ASKED
            self._look()

    def _watch(self) -> None:
        while not self._over.wait(PERIOD_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        roots = [process for pid in self._roots() for process in _process(pid)]
        memory = 0
        for root in roots:
            memory += _resident(root)
            self.pid = root.pid
            with contextlib.suppress(psutil.Error):
                self._seen |= {process.pid: process for process in root.children(recursive=True)}
        memory += sum(_resident(process) for process in self._seen.values())
        self.peak_mib = max(self.peak_mib, memory / 2**20)
        if self.reached is None and self._memory_mib is not None and memory > self._memory_mib * 2**20:
            self.reached = LimitReached.MEMORY
        if self.reached is None and self._until is not None and time.monotonic() >= self._until:
            self.reached = LimitReached.TIME
        if self.reached is not None:
            _kill([*_frozen(roots), *self._seen.values()])


def _process(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        yield psutil.Process(pid)


def _resident(process: psutil.Process) -> int:
    """In bytes; 0 of a process that has ended."""
    try:
        return int(process.memory_info().rss) if process.is_running() else 0
    except psutil.Error:
        return 0


def _marked(mark: str, roots: Sequence[int]) -> list[psutil.Process]:
    """Processes that have the variable in their environment, but for the roots."""
    found = []
    for process in psutil.process_iter() if mark else ():
        with contextlib.suppress(psutil.Error, OSError):
            name, _, value = mark.partition("=")
            if process.pid not in roots and process.environ().get(name) == value:
                found.append(process)
    return found


def _frozen(roots: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Processes and all that descend from them, stopped: one that goes on could start another meanwhile."""
    found: dict[int, psutil.Process] = {}
    left = list(roots)
    while left:
        process = left.pop()
        found[process.pid] = process
        with contextlib.suppress(psutil.Error):
            process.suspend()
            for _ in range(_FREEZE_TRIES):
                if process.status() in _AT_REST:
                    break
                time.sleep(_FREEZE_S)
            left += [child for child in process.children() if child.pid not in found]
    return list(found.values())


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it has ended; psutil takes no other of its number for it
            process.kill()


STARTING = "starting"
"""The step before a task's process has said anything."""

_LAST_WORDS = 2000
"""Characters of what a process printed before it died."""


@dataclass(frozen=True)
class ChildSetup:
    """Settings that all child processes of a batch share.

    worker: the module that does the work, by its name: the command line is above this package. paths: folders in which
    Python finds it. cwd: the folder in which modules are found that tasks name; None: none.
    """

    worker: str = "trtsmith.converter.cli.batch_worker"
    paths: Sequence[Path] = ()
    cwd: Path | None = None


class TaskRunner:
    """Runs tasks, as a context manager: at the end its processes are gone, and its files unless they were handed over.

    folder: an existing folder in which everything is that a task writes, temporary files too. Results are handed out as
        folders in it, so that who takes them moves them where they belong.
    gpu:    the name of the GPU that it may use, for records. visible: it, as CUDA_VISIBLE_DEVICES has it. "" for none.

    `run` is for one thread at a time; that which ran the first task must live as long as the runner is used: Linux ends a
    process with the thread that started it. `stop` is for any.
    """

    def __init__(
        self,
        folder: Path,
        setup: ChildSetup,
        *,
        gpu: str = "",
        visible: str = "",
        machine: MachineFacts | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="runner-", dir=folder.absolute()))
        self._used, self._machine = self._folder / "used", machine or MachineFacts({}, {}, "")
        self._temporary, self._reports, self._results = (
            self._folder / name for name in ("tmp", "reports", "results")
        )
        for path in (self._temporary, self._reports, self._results):
            path.mkdir()
        self._gpu, self._setup = gpu, setup
        # Keys know those of the variable alone, and not what is in force in this process.
        named = {VARIABLE: os.environ.get(VARIABLE, ""), used_files.VARIABLE: str(self._used)}
        self._pool = Pool(
            setup.worker,
            environment=named | {"CUDA_VISIBLE_DEVICES": visible, "TMPDIR": str(self._temporary)},
            paths=setup.paths,
            folder=self._folder,
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stopped = False
        self._watch: ProcessWatch | None = None

    def __enter__(self) -> TaskRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()
        shutil.rmtree(self._temporary, ignore_errors=True)
        shutil.rmtree(self._reports, ignore_errors=True)
        self._used.unlink(missing_ok=True)
        for folder in (self._results, self._folder):  # results that nobody has taken yet stay
            with contextlib.suppress(OSError):
                folder.rmdir()

    def stop(self) -> None:
        """Ends the running task, and marks it and later ones as cancelled."""
        with self._lock:
            self._stopped = True
            if self._watch is not None:
                self._watch.stop()

    def run(self, task: BatchTask, listener: EventListener) -> TaskEnd:
        """Runs a task. Raises nothing: failures are in the record."""
        began, started = datetime.now(timezone.utc), time.monotonic()
        mark = f"TMPDIR={self._temporary}"
        watch = ProcessWatch(self._pool.processes, task.needs.memory_mib, task.needs.timeout_s, mark)
        folder = self._results / str(next(self._numbers))
        files: dict[str, FileFacts] = {}
        try:
            if not self._pool.processes():  # else it is of modules that the worker still has
                self._used.unlink(missing_ok=True)
            folder.mkdir()  # and not as a temporary one, which nobody else may read
            record = self._ask(task, folder, watch, listener)
            record = replace(record, unkeyed=self._unkeyed(task))
            files = _files(folder)
        except OSError as error:
            record = record_of(task, TaskStatus.INVALID, _without_room(task, error))
        if not files:
            shutil.rmtree(folder, ignore_errors=True)
        record = replace(
            record,
            files=files,
            seconds={**record.seconds, "total": round(time.monotonic() - started, 3)},
            peak_mib=round(watch.peak_mib, 1),
            place={"host": platform.node(), "gpu": self._gpu, "pid": watch.pid},
            began=began.isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
        return TaskEnd(task, record, folder if files else None)

    def _unkeyed(self, task: BatchTask) -> tuple[str, ...]:
        """What the task used, and its processes may have used, that a key of its files and the machine's does not say."""
        found = [f"{path}, which was changed meanwhile" for path in changed(self._machine.files)]
        with contextlib.suppress(FileNotFoundError):
            found += used_files.uncovered(self._used, (*task.files, *self._machine.files), VARIABLES)
        return tuple(found)

    def _ask(self, task: BatchTask, folder: Path, watch: ProcessWatch, listener: EventListener) -> TaskRecord:
        with self._lock:
            if self._stopped:
                return record_of(task, TaskStatus.CANCELLED, cancelled(task))
            self._watch = watch
        host = platform.node()
        listener(Event(task.name, STARTING, step=STARTING, place=host))

        def tell(_: None, event: Mapping[str, Any]) -> None:
            if event["event"] == "progress":
                text = str(event.get("text", ""))
                step, share = str(event.get("step", text)), event.get("share")
                listener(Event(task.name, text, step=step, share=share, place=host))

        request = {
            "name": task.name,
            "source": task.source,
            "words": list(task.words),
            "bench": None if task.bench is None else list(task.bench),
            "tune": None if task.tune is None else list(task.tune),
            "folder": str(folder),
            "reports": str(self._reports),
            "cwd": str(self._setup.cwd or ""),
        }
        try:
            with watch:
                ((_, answer),) = self._pool.run(deque([(None, json.dumps(request))]), on_event=tell)
        finally:
            with self._lock:
                self._watch = None
        if not self._pool.processes():  # what it left behind is nobody's
            for left in (self._temporary, self._reports):
                shutil.rmtree(left, ignore_errors=True)
                left.mkdir(exist_ok=True)
        if answer.found is not None:
            return _answered(task, with_text(answer.found, f"{folder}/", ""))  # results are not to stay there
        return record_of(task, *_ended(task, answer, watch))


def _files(folder: Path) -> dict[str, FileFacts]:
    """Every file in a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): FileFacts(
            file_digest(path).removeprefix("sha256:"), path.stat().st_size
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def with_text(value: Any, old: str, new: str) -> Any:
    """Replaces `old` by `new` in every string and key of plain data."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {with_text(key, old, new): with_text(one, old, new) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [with_text(one, old, new) for one in value]
    return value


def _without_room(task: BatchTask, error: OSError) -> Problem:
    return Problem(
        f"the files of the task cannot be written: {error.strerror or error}",
        f"{task.name}: {error.filename or 'its folder'}",
        "a writable folder with free space",
        "free some space, or name another folder with -o",
    )


def _ended(task: BatchTask, answer: Outcome, watch: ProcessWatch) -> tuple[TaskStatus, Problem]:
    """The end of a task whose process gave no answer."""
    error = answer.error
    if watch.reached is LimitReached.ASKED:
        return TaskStatus.CANCELLED, cancelled(task)
    if watch.reached is None and isinstance(error, TrtsmithError):
        return TaskStatus.CRASHED, error.problems[0]
    status = TaskStatus.CRASHED
    what = f"the process that converts {error}"
    expected = "a result, or a message that says what is wrong with the model"
    fix = "run the task's command by hand with -v; if it dies again, report what it prints"
    phase = f", while {error.phase}" if isinstance(error, ChildDied) else ""
    if watch.reached is LimitReached.TIME:
        status = TaskStatus.TIMEOUT
        what = f"it did not end within {task.needs.timeout_s:g} s{phase}"
        expected, fix = "a conversion that ends in its time", "give it a larger `timeout` in the zoo"
    if watch.reached is LimitReached.MEMORY:
        status = TaskStatus.MEMORY
        what = f"its processes took {watch.peak_mib:.0f} MiB together, of {task.needs.memory_mib} that it may take{phase}"
        expected = "a conversion within its memory"
        fix = "give it a larger `memory` in the zoo, or fewer --jobs on a machine without more"
    words = (error.log if isinstance(error, ChildDied) else answer.said).strip()[-_LAST_WORDS:]
    last = f". The last that it printed:\n{words}" if words else ""
    return status, Problem(f"{what}{last}", task.name, expected, fix)


def _answered(task: BatchTask, found: Mapping[str, Any]) -> TaskRecord:
    """The end of a task whose process answered, in the form of cli/batch_worker.py."""
    report = found["report"] or {}
    return replace(
        record_of(task, _status(found), *(Problem(**problem) for problem in found["problems"])),
        report=found["report"],
        bench=found["bench"],
        tune=found["tune"],
        warnings=tuple(dict.fromkeys([*report.get("warnings", ()), *found["warnings"]])),
        seconds={**report.get("seconds", {}), **found["seconds"]},
        versions=_versions(found["versions"], report.get("engine")),
    )


def _status(found: Mapping[str, Any]) -> TaskStatus:
    code, report, death = found["exit_code"], found["report"] or {}, found["death"]
    if code == EXIT_OK:
        return TaskStatus.CONVERTED if report.get("verdict") is None else TaskStatus.AGREE
    if code == EXIT_DISAGREE:
        return TaskStatus.DISAGREE
    if code == EXIT_NOT_COMPARED:
        return TaskStatus.NOT_COMPARABLE
    if death is not None and death["timed_out"]:
        return TaskStatus.TIMEOUT
    if code == EXIT_FAILED:
        converted = bool(report.get("converted"))  # then it is the timing that failed
        return TaskStatus.CRASHED if converted or (death and not death["refused"]) else TaskStatus.REFUSED
    return TaskStatus.INVALID


def _versions(installed: Mapping[str, str], engine: Mapping[str, Any] | None) -> dict[str, str]:
    """The version of the TensorRT that built the engine, not that of another installed one."""
    others = {name for name in installed if name.startswith("tensorrt")} - {(engine or {}).get("flavour")}
    return {name: version for name, version in installed.items() if engine is None or name not in others}

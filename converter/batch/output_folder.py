"""Manages the folder of a batch: each task's results in a folder of its own, complete or absent.

A task's folder is made under DIR/.work and renamed, record.json written last. What a batch that was killed left there is
swept by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Container, Iterable
from pathlib import Path, PurePosixPath

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.file_hashes import FileHashes
from trtsmith.converter.batch.results.document import RESULTS
from trtsmith.converter.batch.task import RECORD, BatchTask, TaskRecord, is_below
from trtsmith.importers.problem import Problem

WORK = ".work"
LOCK = ".lock"


class OutputFolder:
    """The output folder, locked for this process, as a context manager. tasks: that may be written there.

    scratch: a folder in the same file system for what is being done.

    UsageError where it cannot be written, where it has files but no results, where another batch is at work in it, or where
    a task's name cannot be that of a folder or is taken by something that no batch has written.
    """

    def __init__(self, folder: Path, tasks: Iterable[BatchTask]) -> None:
        self.folder = folder.absolute()
        self._tasks = tuple(tasks)
        self._numbers = itertools.count(1)
        self.scratch = self.folder / WORK

    def __enter__(self) -> OutputFolder:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_own()
            self._lock = _locked(self.folder)
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        try:
            self._check()
            self._sweep()
            (self.folder / WORK).mkdir(exist_ok=True)
            self.scratch = Path(tempfile.mkdtemp(dir=self.folder / WORK))
        except OSError as error:
            os.close(self._lock)
            raise cannot_write(self.folder, error) from error
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._sweep()
        os.close(self._lock)

    def read(self, name: str) -> TaskRecord | None:
        """Reads the record of a finished task; None if there is no valid one."""
        try:
            return TaskRecord.from_json((self.folder / name / RECORD).read_bytes())
        except (OSError, ValueError):
            return None

    def others(self, names: Container[str]) -> tuple[str, ...]:
        """Returns the names of tasks that the folder has results of, without these."""
        found = (path.parent.relative_to(self.folder) for path in self.folder.rglob(f"*/{RECORD}"))
        return tuple(
            sorted(str(one) for one in found if one.parts[0][0] != "." and one.as_posix() not in names)
        )

    def is_whole(self, record: TaskRecord, hashes: FileHashes) -> bool:
        """Tells whether the record's files exist with their recorded contents."""
        folder = self.folder / record.name
        try:
            return all(hashes.of(folder / name) == facts.sha256 for name, facts in record.files.items())
        except OSError:
            return False

    def new_folder(self) -> Path:
        """Returns an unused path for a folder that is to be published."""
        return self.scratch / f"new-{next(self._numbers)}"

    def publish(self, record: TaskRecord, made: Path | None) -> None:
        """Publishes a task's folder with its record, replacing an older one or its former variants.

        made: is moved there, from the scratch folder; None: without files.

        OSError where it cannot be done; what was there before is there still, and nothing of the new one.
        """
        if made is None:
            made = self.new_folder()
            made.mkdir()
        try:
            (made / RECORD).write_text(_text(record), encoding="utf-8")
            target = self.folder / record.name
            self._retire(target.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._exchange(made, target)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    def _exchange(self, made: Path, target: Path) -> None:
        older = self.new_folder()
        try:
            os.rename(target, older)
        except FileNotFoundError:
            os.rename(made, target)
            return
        try:
            os.rename(made, target)
        except BaseException:
            os.rename(older, target)
            raise
        shutil.rmtree(older, ignore_errors=True)

    def _retire(self, parent: Path) -> None:
        """Remove the results of a model that had no variants, before the first variant is put beside them."""
        if parent == self.folder or not (parent / RECORD).exists():
            return
        record = self.read(parent.relative_to(self.folder).as_posix())
        for name in (*(record.files if record is not None else ()), RECORD):
            if is_below(name):  # a record is a file that anybody may have written
                with contextlib.suppress(FileNotFoundError):
                    (parent / name).unlink()

    def _check_own(self) -> None:
        """Raises UsageError for a folder of other files that are not hidden. A batch leaves its lock there; a copy may lack
        it.
        """
        names = {path.name for path in self.folder.iterdir()}
        if not names & {LOCK, RESULTS} and any(not name.startswith(".") for name in names):
            raise UsageError(
                "the folder has files, and no batch wrote results into it",
                f"-o {self.folder}",
                "an empty folder, a new one, or one of results",
                f"name another folder with -o: -o {self.folder}-results",
            )

    def _check(self) -> None:
        problems = []
        for task in self._tasks:
            if not is_below(task.name) or any(part[0] == "." for part in PurePosixPath(task.name).parts):
                where, fix = f"task {task.name!r}", "give the model another name"
                problems.append(
                    Problem("the model's name cannot be a folder name", where, "a relative path", fix)
                )
                continue
            path = self.folder / task.name
            if os.path.lexists(path) and not (path / RECORD).exists() and not _has_variants_only(path):
                problems.append(
                    Problem(
                        "the task's folder has files that no batch wrote",
                        str(path),
                        f"nothing, or a folder with {RECORD}",
                        "move it away, or name another folder with -o",
                    )
                )
        if problems:
            raise UsageError(problems)

    def _sweep(self) -> None:
        """Remove all that is not published."""
        shutil.rmtree(self.folder / WORK, ignore_errors=True)


def _text(record: TaskRecord) -> str:
    """A part of the record on a line: json's indent takes ten times as long, and reports have thousands of nodes."""
    parts = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in record.to_json().items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def cannot_write(folder: Path, error: OSError) -> UsageError:
    """Makes the error for an unusable output folder."""
    what = f"the folder of the batch cannot be written: {error.strerror or error}"
    names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)  # a rename has both
    where = f"-o {folder}" + (f": {names}" if names else "")
    fix = "free space, see to its permissions, or name another; the same command continues the batch"
    return UsageError(what, where, "a writable folder with free space", fix)


def _has_variants_only(path: Path) -> bool:
    """Whether a folder holds results of a model's variants, or nothing: the model may have none now."""
    folders = path.is_dir() and not path.is_symlink()
    return folders and all(not one.is_symlink() and (one / RECORD).is_file() for one in path.iterdir())


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock on FOLDER/.lock until it is closed. The file stays, and says who had it last.

    UsageError where another process has it. OSError where it cannot be written, and for what is no file of its own.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # it is written to
            raise OSError(
                errno.EINVAL, "it is a device, a pipe or another name of a file", str(folder / LOCK)
            )
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()!r}".encode(), 0)
    except BlockingIOError:
        said = os.pread(descriptor, 256, 0).decode(errors="replace")
        who = said if said and said.isprintable() else "a process that has just begun"
        os.close(descriptor)
        raise UsageError(
            f"another batch is writing into this folder: {who}",
            str(folder),
            "one batch at a time in a folder",
            "wait until the other batch has ended, or choose another folder with -o",
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

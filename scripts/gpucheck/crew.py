"""Keeps child processes that take jobs by name, so that TensorRT is imported and CUDA begun once for many jobs.

They are forked from this process, which must not have used CUDA: whatever is imported and loaded is there in each. A
crash or a hang is a finding about the job in hand; another child takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxcoverage.forks import Finding, how_it_died, said_in

RETIRE = "retire"
"""A job that finds this key true is its child's last: what CUDA says after an error holds for the whole process."""

Work = Callable[[str], dict[str, Any]]


@dataclass
class _Member:
    """One child. jobs: its pipe for names; findings: the pipe it answers on; job: what it has in hand."""

    pid: int
    jobs: int
    findings: int
    log: Path
    job: str = ""
    until: float = 0.0
    data: bytes = b""


def run_crew(
    pending: deque[str], work: Work, size: int, timeout_s: float, end: float, folder: Path
) -> Iterator[tuple[str, Finding]]:
    """Each job's finding as it comes; whoever reads may append to `pending` meanwhile. work(name) runs in a child and
    returns what can be JSON.

    size: children at a time. timeout_s: for one job. end: on time.monotonic(); what is not done then comes back as died.
    """
    crew: dict[int, _Member] = {}
    try:
        while (pending or any(member.job for member in crew.values())) and time.monotonic() < end:
            while pending and len(crew) < size:
                member = _enlist(work, folder, list(crew.values()))
                crew[member.findings] = member
            for member in crew.values():
                if pending and not member.job:
                    _give(member, pending.popleft(), timeout_s)
            yield from _hear(crew, timeout_s)
    finally:
        for member in crew.values():
            _dismiss(member)
    left = [*(member.job for member in crew.values() if member.job), *pending]
    for name in left:
        yield name, Finding({}, "not done: no time was left")


def _enlist(work: Work, folder: Path, others: list[_Member]) -> _Member:
    job_read, job_write = os.pipe()
    finding_read, finding_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(job_read)
        os.close(finding_write)
        return _Member(pid, job_write, finding_read, folder / f"crew-{pid}.log")
    code = 1
    try:
        for descriptor in (job_write, finding_read, *(d for m in others for d in (m.jobs, m.findings))):
            os.close(descriptor)
        log = os.open(folder / f"crew-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _serve(work, job_read, finding_write)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)  # no tear-down of what the parent owns


def _serve(work: Work, jobs: int, findings: int) -> None:
    """In the child: a name a line in, a JSON object a line out, until the names end.

    The pipe of findings closes with the process and not before: its end says that the log is complete.
    """
    with os.fdopen(jobs, encoding="utf-8") as names:
        for line in names:
            found = work(line.rstrip("\n"))
            answer = f"{json.dumps(found)}\n".encode()
            while answer:
                answer = answer[os.write(findings, answer) :]
            if found.get(RETIRE):
                return


def _give(member: _Member, name: str, timeout_s: float) -> None:
    member.job, member.until = name, time.monotonic() + timeout_s
    with contextlib.suppress(BrokenPipeError):  # it died; its end of the other pipe says so
        os.write(member.jobs, f"{name}\n".encode())


def _hear(crew: dict[int, _Member], timeout_s: float) -> Iterator[tuple[str, Finding]]:
    """What children found, or how they ended, within half a second."""
    ready, _, _ = select.select(list(crew), [], [], 0.5)
    for pipe in ready:
        member = crew[pipe]
        data = os.read(pipe, 1 << 20)
        member.data += data
        if data.endswith(b"\n"):
            found = json.loads(member.data)
            name, member.job, member.data = member.job, "", b""
            if found.pop(RETIRE, False):
                crew.pop(pipe)
                _dismiss(member)
            yield name, Finding(found)
        elif not data:
            crew.pop(pipe)
            yield from _ended(member, "")
    for member in [m for m in crew.values() if m.job and time.monotonic() > m.until]:
        crew.pop(member.findings)
        yield from _ended(member, f"hangs: not done after {timeout_s:g} s")


def _ended(member: _Member, hangs: str) -> Iterator[tuple[str, Finding]]:
    said = said_in(member.log)
    status = _dismiss(member, ended=not hangs)
    if member.job:
        yield member.job, Finding({}, hangs or how_it_died(status, said), said)


def _dismiss(member: _Member, ended: bool = False) -> int:
    """Its status. ended: whether it ends by itself, which closed its pipe; else it is killed, whatever it does."""
    os.close(member.jobs)
    os.close(member.findings)
    if not ended:
        os.kill(member.pid, signal.SIGKILL)
    _, status = os.waitpid(member.pid, 0)
    member.log.unlink(missing_ok=True)
    return status

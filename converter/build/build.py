"""Builds an engine in a child process: whatever TensorRT does to that process becomes an error message.

The child is `python -m converter.build.worker request.json`. It writes its events as JSON lines to a pipe of
their own, since TensorRT and plugins print to stdout and stderr as they like; those two go to the log. The
engine is written beside its target under a temporary name, and takes the target's name here, after the child
said that all went well: a failure leaves what was there before as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter.build import log as build_log
from converter.build.child_environment import child_environment
from converter.build.flavour import choose_flavour
from converter.build.gpu import find_gpu
from converter.build.request import BuildRequest, BuildResult
from converter.errors import EXIT_USAGE, ConversionError, TrtsmithError, UsageError
from importers.problem import Problem

Progress = Callable[[str], None]


def build(request: BuildRequest, on_progress: Progress | None = None) -> BuildResult:
    """Build the engine and put it at request.engine_path.

    on_progress gets one short line for each step. Raises ConversionError if TensorRT cannot build the model,
    or dies or runs out of time trying; UsageError if the request, a path or the environment is wrong. An
    engine that was there before is replaced only after a success; Ctrl-C ends the child.
    """
    started = time.monotonic()
    request = _absolute(request)
    _check_paths(request)
    flavour = choose_flavour(request.flavour, find_gpu())
    request = replace(request, flavour=flavour)
    unfinished = request.engine_path.with_name(f".{request.engine_path.name}.{os.getpid()}.tmp")
    try:
        with tempfile.TemporaryDirectory(prefix="trtsmith-build-") as folder:
            work = Path(folder)
            child_request = replace(
                request, engine_path=unfinished, log_path=request.log_path or work / "build.log"
            )
            result = _run_child(child_request, request, work, on_progress or _ignore)
            os.replace(unfinished, request.engine_path)
            _sync_folder(request.engine_path.parent)
    finally:
        unfinished.unlink(missing_ok=True)
    return replace(result, engine_path=request.engine_path, seconds=time.monotonic() - started)


def _run_child(
    child_request: BuildRequest, request: BuildRequest, work: Path, on_progress: Progress
) -> BuildResult:
    request_file, run_folder = work / "request.json", work / "run"
    request_file.write_text(child_request.to_json())
    run_folder.mkdir()  # an empty working folder: python -m puts it first on the module path
    log_path = child_request.log_path
    assert log_path is not None
    log_path.write_bytes(b"")
    read_end, write_end = os.pipe()
    # The child's stdout, its stderr and its logger all append to one file, in the order in which they speak.
    with os.fdopen(read_end, "rb", buffering=0) as events, open(log_path, "ab") as log:
        try:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "ignore",
                    "-m",
                    "converter.build.worker",
                    str(request_file),
                    str(write_end),
                ],
                env=child_environment(request.flavour, work),
                cwd=run_folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,),
                start_new_session=True,  # so that Ctrl-C reaches the child through us only
            )
        finally:
            os.close(write_end)
        last: dict[str, Any] = {}
        phase = "starting TensorRT"
        timed_out = False
        try:
            for event in _read_events(events.fileno(), request.timeout_s):
                if event["event"] in ("result", "problems"):
                    last = event
                    continue
                phase = event.get("phase", phase)
                on_progress(event["text"])
            if last:  # what is left to do in the child is to tear TensorRT down
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=10)
            else:
                child.wait()
        except TimeoutError:
            timed_out = True
        finally:
            _end(child)
    if timed_out:
        raise ConversionError(
            _died(f"did not finish within {request.timeout_s:g} s", phase, request, log_path)
        )
    if last.get("event") == "result":
        return BuildResult.from_json(last["result"])
    if last.get("event") == "problems":
        raise _error_from(last)
    raise ConversionError(_died(build_log.describe_exit(child.returncode), phase, request, log_path))


def _read_events(descriptor: int, timeout_s: float | None) -> Iterator[dict[str, Any]]:
    """The child's events until it closes the pipe. Raises TimeoutError when the time is up."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and (left <= 0 or not selector.select(left)):
                raise TimeoutError
            data = os.read(descriptor, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            yield from (json.loads(line) for line in lines if line)


def _error_from(event: dict[str, Any]) -> TrtsmithError:
    problems = [Problem(**problem) for problem in event["problems"]]
    return UsageError(problems) if event["exit_code"] == EXIT_USAGE else ConversionError(problems)


def _died(how: str, phase: str, request: BuildRequest, log_path: Path) -> Problem:
    log = log_path.read_text(errors="replace")
    node = build_log.last_node(log)
    at = f", last at {node}" if node else ""
    words = build_log.tail(log)
    kept = f"; the whole log is in {log_path}" if request.log_path else ""
    if "did not finish" in how:
        fix = "give it more time, or a lower --optimization-level"
    elif phase.startswith("loading the plugin library"):
        fix = (
            "load that library in a small program of your own to see why it ends the process, or leave it out"
        )
    else:
        fix = (
            "cut the model down around that node to see if it is the cause; a plugin: 'trtsmith plugin test'"
        )
    return Problem(
        f"The process that runs TensorRT {how} while {phase}{at}."
        + (f" The end of its log{kept}:\n{words}" if words else ""),
        f"{request.onnx_path}" + (f", {node}" if node else ""),
        "a build that ends with an engine or with a message",
        fix,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and its process group, unless it has ended already."""
    if child.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _absolute(request: BuildRequest) -> BuildRequest:
    def full(path: Path | None) -> Path | None:
        return None if path is None else Path(os.path.abspath(path))

    return replace(
        request,
        onnx_path=Path(os.path.abspath(request.onnx_path)),
        engine_path=Path(os.path.abspath(request.engine_path)),
        plugin_libraries=tuple(
            dict.fromkeys(Path(os.path.realpath(path)) for path in request.plugin_libraries)
        ),
        timing_cache=full(request.timing_cache),
        log_path=full(request.log_path),
    )


def _check_paths(request: BuildRequest) -> None:
    problems = []
    if not request.onnx_path.is_file():
        problems.append(
            Problem("There is no such file.", str(request.onnx_path), "an ONNX model", "correct the path")
        )
    for library in request.plugin_libraries:
        if not library.is_file():
            problems.append(
                Problem("There is no such file.", str(library), "a plugin library", "correct --plugins")
            )
    folder = request.engine_path.parent
    if request.engine_path.is_dir():
        problems.append(
            Problem(
                "The output path is a folder.",
                str(request.engine_path),
                "the path of a file",
                "add a file name",
            )
        )
    elif not folder.is_dir():
        problems.append(
            Problem(
                "The output folder does not exist.", str(folder), "a folder", f"create it: mkdir -p {folder}"
            )
        )
    elif not os.access(folder, os.W_OK):
        problems.append(
            Problem(
                "The output folder cannot be written.",
                str(folder),
                "a folder that you may write",
                "choose another",
            )
        )
    cache = request.timing_cache
    if cache is not None and (
        cache.is_dir() or not cache.parent.is_dir() or not os.access(cache.parent, os.W_OK)
    ):
        what = "The timing cache is a folder." if cache.is_dir() else "The timing cache cannot be written."
        problems.append(
            Problem(
                what, f"--timing-cache {cache}", "a file in a folder that you may write", "name another file"
            )
        )
    if problems:
        raise UsageError(problems)


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ignore(text: str) -> None:
    del text

"""Signals, closed standard streams and failing files, tested from outside in child processes."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import COMMAND, Cli, Ran, refused, shell
from tests.converter.models import relu
from trtsmith.converter.cli.exit_handling import file_problem, memory_problem, signals_unwind


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    relu(here / "m.onnx")
    return here


@pytest.mark.usefixtures("default_signals")
def test_a_signal_unwinds_once_and_lets_clean_up_end() -> None:
    steps = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("not reached")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            steps.append("cleaned up")

    with pytest.raises(SystemExit) as ending, signals_unwind():
        work()
    assert ending.value.code == 143 and steps == ["cleaned up"]
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


IMPORT_OF_THE_COMMAND = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(name, path, target=None):
        if name == "trtsmith.converter.cli.console":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder)
runpy.run_module("trtsmith", run_name="__main__")
"""


def test_ctrl_c_while_the_command_is_imported_is_one_line() -> None:
    assert shell(f"{sys.executable} -c {shlex.quote(IMPORT_OF_THE_COMMAND)}") == Ran(130, "", "interrupted\n")


@pytest.mark.parametrize("ignored", ["INT", "HUP", "TERM"])
def test_a_signal_that_is_ignored_from_the_beginning_stays_so(ignored: str) -> None:
    """As nohup leaves SIGHUP, and a script's `&` SIGINT."""
    code = (
        "import os, signal; from trtsmith.converter.cli.exit_handling import signals_unwind\n"
        f"with signals_unwind(): os.kill(os.getpid(), signal.SIG{ignored}); print('goes on')"
    )
    assert shell(f"trap '' {ignored}; {sys.executable} -c {shlex.quote(code)}") == Ran(0, "goes on\n", "")


def test_signals_that_somebody_else_handles_are_left_alone() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_unwind():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    seen = []
    thread = threading.Thread(target=lambda: signals_unwind().__enter__() or seen.append("entered"))
    thread.start()
    thread.join()
    assert seen == ["entered"]


def test_closed_streams_are_no_failure(folder: Path) -> None:
    assert shell(f"{COMMAND} convert m.onnx -o a.plan -q >&- <&-") == Ran(0, "", "")
    ran = shell(f"{COMMAND} convert m.onnx -o b.plan 2>&-")
    assert ran.code == 0 and ran.out.startswith("engine:   b.plan")
    assert "building" not in ran.out  # progress belongs on stderr
    assert (folder / "a.plan").is_file() and (folder / "b.plan").is_file()


def test_paths_that_the_system_refuses(cli: Cli) -> None:
    for command in ("run", "bench", "verify m.onnx", "locate m.onnx"):
        refused(cli(command, f"{'x' * 300}.plan"), 2, "File name too long")
        refused(cli(command, ""), 2)
    for command in (
        ("verify", "", "m.plan"),
        ("locate", ""),
        ("check", ""),
        ("bundle", "", "--triton", "models"),
    ):
        refused(cli(*command), 2)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied", "secret/m.plan"), ("Permission denied", "secret/m.plan", "permission")),
        (OSError(28, "No space left on device"), ("No space", "temporary file", "free some space")),
        (FileNotFoundError(2, "No such file or directory", b"a\\xff"), ("No such file", "correct the path")),
    ],
)  # fmt: skip
def test_what_is_said_of_files(error: OSError, words: tuple[str, ...]) -> None:
    problem = file_problem(error)
    assert problem is not None and all(word in str(problem) for word in words)


def test_no_folder_for_temporary_files_is_told_with_the_variable() -> None:
    problem = file_problem(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"))
    assert problem is not None and "set TMPDIR" in str(problem)


def test_want_of_memory_is_told_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_problem(ValueError("a text")) is None
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, -1))
    assert memory_problem() is None
    assert "this machine's memory" in str(memory_problem(MemoryError("std::bad_alloc")))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (150 << 20, -1))
    assert "limited to 150 MiB (ulimit -v)" in str(memory_problem())
    assert "ran out of memory" in str(memory_problem(RuntimeError("can't start new thread")))


def test_too_little_memory_for_any_library_is_a_message() -> None:
    """numpy's OpenBLAS waits for it without end, and hears no signal meanwhile."""
    refused(shell(f"ulimit -v 160000; {COMMAND} check m.onnx"), 2, "too little memory")


def test_errors_that_are_not_about_files_stay_ours() -> None:
    assert file_problem(ChildProcessError(10, "No child processes")) is None
    assert file_problem(OSError("a text")) is None

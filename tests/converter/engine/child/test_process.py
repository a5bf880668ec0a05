"""What comes of a child process: its result, its problems, its death, and its end with the time."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.processes import children, has_ended
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.model.errors import ConversionError, UsageError

CHILD = """
import ctypes, json, os, subprocess, sys, time, warnings
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.model.errors import ConversionError, UsageError
from trtsmith.importers.problem import Problem

def work(request, events, log_path):
    asked = json.loads(request)
    events.phase("first step")
    print("printed by a library", flush=True)
    warnings.warn("of a library, which nobody wants to read")
    events.phase("second step")
    do = asked["do"]
    if do == "echo":
        return {"echo": asked["value"], "folder": os.listdir(".")}
    if do == "print":
        print("at the end")  # in Python's buffer
        return {}
    if do == "refuse":
        kind = UsageError if asked["usage"] else ConversionError
        raise kind([Problem("a", "b", "c", "d"), Problem("e", "f", "g", "h")])
    if do == "mistake":
        return {}["no such key"]
    if do == "crash":
        ctypes.string_at(0)
    if do == "lack":
        print("what(): std::bad_alloc", flush=True)
        os.abort()
    if do == "exit":
        os._exit(7)
    if do == "read":
        return {"read": sys.stdin.read()}
    if do == "hang":
        print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
        time.sleep(600)

serve(sys.argv[1:], work)
"""


@pytest.fixture(autouse=True)
def child_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "child_under_test.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


def run(request: str, **options: Any) -> dict[str, Any]:
    return run_child("child_under_test", request, "tensorrt", **options)


def test_result_and_progress(tmp_path: Path) -> None:
    said: list[str] = []
    log = tmp_path / "kept.log"
    found = run('{"do": "echo", "value": [1, "\\u00e9"]}', on_progress=said.append, log_path=log)
    assert found == {"echo": [1, "\u00e9"], "folder": []}
    assert said == ["first step", "second step"]
    assert log.read_text() == "printed by a library\n"


def test_the_log_has_what_was_printed_last(tmp_path: Path) -> None:
    log = tmp_path / "kept.log"
    run('{"do": "print"}', log_path=log)
    assert log.read_text() == "printed by a library\nat the end\n"


@pytest.mark.parametrize(("usage", "kind"), [("true", UsageError), ("false", ConversionError)])
def test_problems_come_through_with_their_kind(usage: str, kind: type) -> None:
    with pytest.raises(kind) as error:
        run(f'{{"do": "refuse", "usage": {usage}}}')
    assert [problem.what for problem in error.value.problems] == ["a", "e"]


def test_our_own_mistake_is_said_to_be_ours(tmp_path: Path) -> None:
    log = tmp_path / "kept.log"
    with pytest.raises(ConversionError, match=r"trtsmith failed: KeyError: 'no such key'"):
        run('{"do": "mistake"}', log_path=log)
    assert "Traceback" in log.read_text()


@pytest.mark.parametrize(("limit", "kind"), [(resource.RLIM_INFINITY, ChildDied), (1 << 30, MemoryError)])
def test_want_of_memory_in_the_child_is_one_here_where_memory_is_limited(
    limit: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, -1))
    with pytest.raises(kind):
        run('{"do": "lack"}')


@pytest.mark.parametrize(("do", "how"), [("crash", "SIGSEGV"), ("exit", "exited with code 7")])
def test_death(do: str, how: str) -> None:
    with pytest.raises(ChildDied) as death:
        run(f'{{"do": "{do}"}}')
    assert how in death.value.how
    assert death.value.phase == "second step" and not death.value.timed_out
    assert death.value.log.startswith("printed by a library")


def test_an_event_may_be_larger_than_what_a_pipe_holds() -> None:
    assert run(json.dumps({"do": "echo", "value": "x" * 300_000}))["echo"] == "x" * 300_000


def test_the_child_does_not_read_what_is_typed_or_piped_into_ours() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"for the parent")
    os.close(write_end)
    before = os.dup(0)
    try:
        os.dup2(read_end, 0)
        assert run('{"do": "read"}') == {"read": ""}
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read_end)


def test_time_is_up() -> None:
    before = children()
    with pytest.raises(ChildDied, match="did not finish within 3 s while second step") as death:
        run('{"do": "hang"}', timeout_s=3.0)
    assert death.value.timed_out
    assert children() == before
    assert has_ended(int(death.value.log.split()[-1]))  # what it started is ended too


def test_module_that_is_not_there() -> None:
    with pytest.raises(ChildDied, match="exited with code 1 while starting Python") as death:
        run_child("no_such_module", "{}", "tensorrt")
    assert "No module named" in death.value.log

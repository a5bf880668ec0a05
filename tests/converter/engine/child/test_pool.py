"""Workers that answer many requests: what they share, what a death loses, and that none remains."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processes import checkout_environment, children_of, has_ended
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.child.pool import NotDone, Pool
from trtsmith.converter.engine.child.process import ChildDied, run_child

WORKER = """
import ctypes, json, os, subprocess, sys, time, warnings
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.importers.problem import Problem

last = False

def load(request, events, log_path):
    if request == "crash":
        os.abort()
    if request == "refuse":
        raise UsageError(Problem("no such library", "b", "c", "d"))
    return {"loaded": request}

def work(request, events, log_path):
    global last
    asked = json.loads(request)
    do = asked.pop("do", "echo")
    events.phase("at work")
    print("printed by a library", flush=True)
    warnings.warn("of a library, which nobody wants to read")
    events.send("figures", value=asked.get("figure"))
    if do == "refuse":
        raise (UsageError if asked["usage"] else ConversionError)([Problem("a", "b", "c", "d"), Problem("e", "f", "g", "h")])
    if do == "print":
        print("at the end")  # in Python's buffer
    if do == "mistake":
        return {}["no such key"]
    if do == "crash":
        ctypes.string_at(0)
    if do == "exit":
        os._exit(7)
    if do == "lack":
        print("what(): std::bad_alloc", flush=True)
        os.abort()
    if do == "hang":
        if asked.get("started"):
            print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
        time.sleep(600)
    last = do == "last"
    return {**asked, "pid": os.getpid(), "stdin": sys.stdin.read(), "folder": os.listdir(".")}

def unload():
    if os.environ.get("BAD_END"):
        os.abort()
    print("unloaded", flush=True)

if __name__ == "__main__":
    setup = load if os.environ.get("WITH_SETUP") else None
    end = unload if os.environ.get("WITH_END") else None
    serve(sys.argv[1:], work, setup=setup, spent=lambda: last, end=end)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "worker_under_test.py").write_text(WORKER)
    return tmp_path


@pytest.fixture
def pool(folder: Path) -> Iterator[Pool]:
    with Pool("worker_under_test", paths=[folder]) as pool:
        yield pool


def ask(pool: Pool, timeout_s: float | None = None, **asked: Any) -> dict[str, Any]:
    return pool.ask(json.dumps(asked), timeout_s)


def jobs(**asked: Mapping[str, Any]) -> deque[tuple[str, str]]:
    return deque((key, json.dumps(request)) for key, request in asked.items())


def test_one_worker_answers_many_requests(pool: Pool) -> None:
    first, second = ask(pool, value=[1, "é"]), ask(pool, value=2)
    assert first["value"] == [1, "é"] and second["value"] == 2
    assert first["pid"] == second["pid"] != os.getpid()
    assert first["folder"] == []


def test_a_worker_does_not_read_what_is_typed_or_piped_into_ours(pool: Pool) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"for the parent")
    os.close(write_end)
    before = os.dup(0)
    try:
        os.dup2(read_end, 0)
        assert ask(pool)["stdin"] == ""
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(read_end)


def test_a_request_and_its_answer_may_be_larger_than_a_pipe(pool: Pool) -> None:
    assert ask(pool, value="x" * 3_000_000)["value"] == "x" * 3_000_000


@pytest.fixture
def found_by_children(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.mark.usefixtures("found_by_children")
def test_a_worker_module_answers_a_single_call_too(tmp_path: Path) -> None:
    said: list[str] = []
    log = tmp_path / "kept.log"
    asked = '{"value": 3, "do": "print"}'
    found = run_child("worker_under_test", asked, "tensorrt", on_progress=said.append, log_path=log)
    assert found["value"] == 3 and said == ["at work"]
    assert log.read_text() == "printed by a library\nat the end\n"
    with pytest.raises(ConversionError, match=r"trtsmith failed: KeyError: 'no such key'"):
        run_child("worker_under_test", '{"do": "mistake"}', "tensorrt", log_path=log)
    assert "Traceback" in log.read_text()


@pytest.mark.usefixtures("found_by_children")
@pytest.mark.parametrize(("limit", "kind"), [(resource.RLIM_INFINITY, ChildDied), (1 << 30, MemoryError)])
def test_want_of_memory_in_the_child_is_one_here_where_memory_is_limited(
    limit: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, -1))
    with pytest.raises(kind):
        run_child("worker_under_test", '{"do": "lack"}', "tensorrt")


def test_problems_and_mistakes_cost_no_worker(pool: Pool) -> None:
    before = ask(pool)["pid"]
    for usage, kind in ((True, UsageError), (False, ConversionError)):
        with pytest.raises(kind) as refusal:
            ask(pool, do="refuse", usage=usage)
        assert [problem.what for problem in refusal.value.problems] == ["a", "e"]
    with pytest.raises(ConversionError, match="trtsmith failed: KeyError: 'no such key'"):
        ask(pool, do="mistake")
    assert ask(pool)["pid"] == before


@pytest.mark.parametrize(
    ("do", "how", "code"),
    [("crash", r"died of SIGSEGV \(a bad memory", -11), ("exit", "exited with code 7", 7)],
)
def test_a_death_is_named_and_costs_one_request(pool: Pool, do: str, how: str, code: int) -> None:
    before = ask(pool)["pid"]
    with pytest.raises(ChildDied, match=how) as death:
        ask(pool, do=do)
    assert death.value.code == code and not death.value.timed_out
    assert death.value.phase == "at work"
    assert death.value.log == "printed by a library\n"  # of this request alone
    assert ask(pool)["pid"] != before


def test_a_request_that_takes_too_long_is_ended_with_all_that_it_started(pool: Pool) -> None:
    before = ask(pool)["pid"]
    with pytest.raises(ChildDied, match="did not finish within 1 s while at work") as death:
        ask(pool, 1.0, do="hang", started=True)
    assert death.value.timed_out and death.value.code is None
    assert has_ended(before) and has_ended(int(death.value.log.split()[-1]))
    assert ask(pool)["pid"] != before


def test_a_worker_that_is_spent_is_replaced(pool: Pool) -> None:
    pids = [ask(pool, do=do)["pid"] for do in ("first", "last", "next")]
    assert pids[0] == pids[1] != pids[2]


def test_requests_are_shared_by_workers_and_more_may_come(folder: Path) -> None:
    pending = jobs(a={}, crash={"do": "crash"}, b={}, hang={"do": "hang"}, c={})
    found = {}
    with Pool("worker_under_test", 2, paths=[folder]) as pool:
        for key, outcome in pool.run(pending, 3.0):
            found[key] = outcome
            if key == "b":
                pending.append(("late", '{"value": 9}'))
    assert set(found) == {"a", "crash", "b", "hang", "c", "late"}
    assert "SIGSEGV" in str(found["crash"].error) and "within 3 s" in str(found["hang"].error)
    assert found["late"].get()["value"] == 9
    pids = {outcome.get()["pid"] for outcome in found.values() if outcome.error is None}
    assert all(map(has_ended, pids))


def test_what_a_worker_tells_on_the_way_is_heard(pool: Pool) -> None:
    heard = []
    outcomes = pool.run(
        jobs(a={"figure": 1}, b={"figure": 2}), on_event=lambda k, e: heard.append((k, dict(e)))
    )
    assert [key for key, _ in outcomes] == ["a", "b"]
    assert [(key, e["value"]) for key, e in heard if e["event"] == "figures"] == [("a", 1), ("b", 2)]
    said: list[str] = []
    pool.ask("{}", on_progress=said.append)
    assert said == ["at work"]


def test_when_the_time_for_all_is_up_the_rest_is_not_done(pool: Pool) -> None:
    ask(pool)
    found = dict(pool.run(jobs(a={"do": "hang"}, b={}), end=time.monotonic() + 0.5))
    assert [type(outcome.error) for outcome in found.values()] == [NotDone, NotDone]
    assert list(found) == ["a", "b"]


def test_setup_comes_first_in_every_worker(folder: Path) -> None:
    with Pool(
        "worker_under_test", setup="a library", environment={"WITH_SETUP": "1"}, paths=[folder]
    ) as pool:
        assert pool.start() == {"loaded": "a library"} == pool.start()
        assert ask(pool, value=1)["value"] == 1
        pool.restart()
        assert ask(pool, value=2)["value"] == 2


@pytest.mark.parametrize(
    ("setup", "kind", "says"), [("crash", ChildDied, "SIGABRT"), ("refuse", UsageError, "no such")]
)
def test_a_worker_that_does_not_get_ready_ends_the_run(
    folder: Path, setup: str, kind: type[Exception], says: str
) -> None:
    with Pool("worker_under_test", setup=setup, environment={"WITH_SETUP": "1"}, paths=[folder]) as pool:
        found = dict(pool.run(jobs(a={}, b={}, c={})))
        assert [type(outcome.error) for outcome in found.values()] == [kind] * 3
        assert says in str(found["c"].error)
        with pytest.raises(kind, match=says):
            pool.start()


def test_a_module_that_is_not_there() -> None:
    with (
        Pool("no_such_module") as pool,
        pytest.raises(ChildDied, match="code 1 while starting Python") as death,
    ):
        pool.ask("{}")
    assert "No module named" in death.value.log


def test_workers_that_are_let_end_say_how(folder: Path) -> None:
    environment = {"WITH_END": "1"}
    with Pool("worker_under_test", environment=environment, paths=[folder]) as pool:
        before = ask(pool)["pid"]
        pool.finish(20.0)
        assert has_ended(before) and ask(pool)["pid"] != before
    with Pool("worker_under_test", environment={**environment, "BAD_END": "1"}, paths=[folder]) as pool:
        ask(pool)
        with pytest.raises(ChildDied, match=r"SIGABRT.* while ending"):
            pool.finish(20.0)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("default_signals")
def test_workers_end_with_their_parent(
    folder: Path, start: Callable[..., subprocess.Popen[str]], ending: signal.Signals
) -> None:
    """Ctrl-C and the parent's death alike, whether a worker waits or works."""
    code = (
        "import json; from collections import deque; from pathlib import Path; "
        "from trtsmith.converter.engine.child.pool import Pool\n"
        f"with Pool('worker_under_test', 2, paths=[Path({str(folder)!r})]) as pool:\n"
        "    asked = deque([('a', '{}'), ('b', json.dumps({'do': 'hang'}))])\n"
        "    for key, outcome in pool.run(asked): print(outcome.get()['pid'], flush=True)"
    )
    parent = start(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=checkout_environment(TMPDIR=folder),
    )
    assert parent.stdout is not None
    idle = int(parent.stdout.readline())
    children = children_of(parent)
    assert idle in children
    parent.send_signal(ending)
    parent.wait(timeout=120)
    assert all(map(has_ended, children))
    if ending == signal.SIGINT:
        assert list(folder.glob("trtsmith-pool-*")) == []


def test_whoever_stops_reading_leaves_no_worker_at_work(pool: Pool) -> None:
    ask(pool)
    outcomes = pool.run(jobs(a={}, b={"do": "hang"}))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert ask(pool, value=1)["value"] == 1

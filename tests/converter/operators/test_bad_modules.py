"""Modules with operators that raise, exit, hang, print, are missing, or contain something else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli import batch_worker
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.main import main
from trtsmith.converter.operators import module_files, watched_import
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.converter.operators.own_process import own_process
from trtsmith.importers.problem import Problem

pytestmark = pytest.mark.usefixtures("forgotten_modules")
MIXING = Path(__file__).resolve().parents[2] / "outside" / "mixing.py"


def problems(*specs: str | Path) -> tuple[Problem, ...]:
    with (
        pytest.raises(UsageError) as error,
        own_process(),
        operators_in_force([str(spec) for spec in specs], installed=False),
    ):
        pytest.fail("it was loaded")
    assert error.value.exit_code == 2
    assert all(part for problem in error.value.problems for part in problem.to_json().values())
    return error.value.problems


def problem(*specs: str | Path) -> Problem:
    (found,) = problems(*specs)
    return found


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


HELPER = "def helper():\n    import json\n    return json.loads('not')\n\n\n"

RAISING = {
    "raises": ("x = 1\nraise ValueError('bad\\nworse')\n", "ValueError: bad", 2, "mend that line"),
    "name": ("OPERATORS = (UNKNOWN,)\n", "NameError: name 'UNKNOWN' is not defined", 1, "mend that line"),
    "syntax": ("x = 1\n\ndef f(:\n    pass\n", "SyntaxError: ", 3, "mend that line"),
    "indentation": ("def f():\npass\n", "IndentationError: ", 2, "mend that line"),
    "library": (f"{HELPER}X = helper()\n", "JSONDecodeError: Expecting value", 3, "mend that line"),
    "exit": ("import sys\nsys.exit(0)\n", "ends the program while it is imported: SystemExit: 0", 2, "remove"),
    "exit_text": ("raise SystemExit\n", "ends the program while it is imported: SystemExit: None", 1, "remove"),
    "silent": ("import os\nos._exit(0)\n", "ends the program while it is imported: SystemExit: 0", 2, "remove"),
    "closed": ("import sys\nsys.stdout.close()\nprint('x')\n", "ValueError: I/O operation on closed file", 3, "mend"),
    "getattr": ("def __getattr__(name):\n    raise OSError(name)\n", "OSError: OPERATORS", 2, "add OPERATORS"),
    "bare": ("class Odd(BaseException): pass\nraise Odd\n", "Odd", 2, "mend that line"),
    "missing": ("import surely_not_there.inner\n", "No module named 'surely_not_there'", 1, "install surely_not_there"),
    "relative": ("from . import other\n", "attempted relative import", 1, "__init__.py"),
    "recursion": ("def f():\n    f()\nf()\n", "RecursionError", 2, "mend that line"),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISING)
def test_what_an_import_raises_is_told_with_the_line_of_the_file(name: str, tmp_path: Path) -> None:
    text, what, line, fix = RAISING[name]
    path, before = written(tmp_path, text), set(sys.modules)
    found = problem(path)
    assert found.what.startswith(f"--ops {path}: ") and what in found.what and "\n" not in found.what
    assert f"{path}, line {line}" in found.where and fix in found.fix
    left = [module for module in set(sys.modules) - before if module.startswith("trtsmith_ops_")]
    assert name == "getattr" or not left


def test_the_line_is_that_of_the_module_of_a_package_that_is_wrong(tmp_path: Path) -> None:
    written(tmp_path, "from .definition import OPERATORS\n", "gauges/__init__.py")
    inner = written(tmp_path, "X = 1\nY = X / 0\n", "gauges/definition.py")
    found = problem(tmp_path / "gauges")
    assert f"{inner}, line 2: Y = X / 0" in found.where
    assert not [name for name in sys.modules if name.split(".")[0] == "gauges"]


LOOP = "import time\n{}\nOPERATORS = ()\n"
HANGING = ["while True:\n    x = 1", "time.sleep(1000)"]


@pytest.mark.parametrize("text", HANGING)
def test_an_import_that_does_not_end_is_ended(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, LOOP.format(text))
    for limit in ("0.3", "3", "30"):  # on a busy machine the time may be up before the first line runs
        monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", limit)
        found = problem(path)
        assert f"--ops {path}: its import did not end within {limit} s" in found.what
        assert "TRTSMITH_OPS_TIMEOUT" in found.fix
        if found.where != str(path):
            break
    assert f"{path}, line " in found.where


def test_an_import_that_no_interruption_ends_ends_the_command(tmp_path: Path) -> None:
    text = "while True:\n    try:\n        x = sum(range(10000))\n    except BaseException:\n        pass\n"
    path = written(tmp_path, text)
    environment = {**os.environ, "TRTSMITH_OPS_TIMEOUT": "3"}
    command = [sys.executable, "-m", "trtsmith", "ops", "--ops", str(path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    said = f"error: --ops {path}: its import did not end within 3 s\n  where:    {path}, line "
    assert said in ended.stderr


def test_an_import_in_another_thread_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", "0.3")
    path = written(tmp_path, LOOP.format(HANGING[0]))
    found: list[Problem] = []
    thread = threading.Thread(target=lambda: found.append(problem(path)))
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and "did not end within 0.3 s" in found[0].what


def signal_handlers() -> list[object]:
    return [signal.getsignal(number) for number in signal.valid_signals()]


def test_nothing_rings_after_an_import_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal has a handler, and no thread would interrupt the one which imports."""
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", "60")
    handlers, threads = signal_handlers(), set(threading.enumerate())
    left: list[object] = []

    def load() -> None:
        with operators_in_force([str(MIXING)], installed=False):
            left.append(set(threading.enumerate()) - threads - {threading.current_thread()})

    load()
    assert signal_handlers() == handlers
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert left == [set()] * 2


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_must_be_a_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", text)
    assert f"TRTSMITH_OPS_TIMEOUT is {text!r}" in problem(MIXING).what
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", "")
    assert watched_import.import_limit() == watched_import.LIMIT_S


@pytest.mark.parametrize("ending", ["", "while True:\n    pass\n", "time.sleep(1000)\n"])
def test_a_program_that_calls_us_keeps_its_alarm_its_exit_and_its_output(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", "0.3" if ending else "60")
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 1000)
    state = "os._exit, signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1], sys.stdout"
    text = f"import os, signal, sys, time\nos.seen = ({state})\nos.write(1, b'written')\ntime.sleep(0.1)\n{ending}"
    path = written(tmp_path, text + MIXING.read_text(encoding="utf-8").replace("from __future__", "# "))
    try:
        with contextlib.suppress(UsageError), operators_in_force([str(path)], installed=False):
            pass
        handler, (_, interval) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert vars(os).pop("seen") == (os._exit, handler, interval, sys.stdout)
    assert (heard, interval, capfd.readouterr()) == ([signal.SIGALRM], 1000, ("written", ""))


NOISE = """import ctypes, os, subprocess, sys
print("printed by Python")
os.write(1, b"written to the descriptor\\n")
ctypes.CDLL(None).puts(b"printed by C")
subprocess.run([sys.executable, "-c", "print('printed by a child')"])
"""


def test_what_a_module_prints_is_no_result(tmp_path: Path) -> None:
    path = written(tmp_path, NOISE + MIXING.read_text(encoding="utf-8").replace("from __future__", "# "))
    command = [sys.executable, "-m", "trtsmith", "ops", "--json", "--ops", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("[") and "printed" not in ended.stdout and "written" not in ended.stdout
    for said in ("printed by Python", "written to the descriptor", "printed by C", "printed by a child"):
        assert said in ended.stderr


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the module has no OPERATORS"),
        ("OPERATORS = None", "the module has no OPERATORS"),
        ("OPERATORS = ()", "OPERATORS is empty"),
        ("OPERATORS = 'x'", "OPERATORS is a str"),
        ("OPERATORS = {}", "OPERATORS is a dict"),
        ("OPERATORS = (1,)", "OPERATORS[0] is an int"),
    ],
)
def test_operators_that_are_none(text: str, what: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    found = problem(path)
    assert (found.what, found.where) == (f"--ops {path}: {what}", str(path))


def test_an_operator_of_which_nothing_can_be_said(tmp_path: Path) -> None:
    text = "from trtsmith.importers.opdef import OpDef\nclass N:\n    def __repr__(self): raise OSError\n"
    path = written(tmp_path, f"{text}OPERATORS = (OpDef(*[N() for _ in range(10)]),)\n")
    assert any(found.what == f"--ops {path}: an operator: name is something (N)" for found in problems(path))


def test_stderr_and_exits_are_as_before_after_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave = os._exit
    problem(written(tmp_path, "import os, sys\nsys.stdout.close()\nos._exit(3)"))
    assert os._exit is leave
    print("still open")
    print("both", file=sys.stderr)
    assert capsys.readouterr() == ("still open\n", "both\n")


def test_the_fix_lists_what_the_module_defines(tmp_path: Path) -> None:
    text = MIXING.read_text(encoding="utf-8")
    path = written(tmp_path, text.replace("OPERATORS =", "FOUND ="))
    assert problem(path).fix == "add OPERATORS = (CHANNEL_MIXING, LOG_ODDS,)"
    path = written(tmp_path, text.replace("(CHANNEL_MIXING, LOG_ODDS)", "CHANNEL_MIXING"), "one.py")
    assert "OPERATORS is an OpDef" in problem(path).what


def test_paths_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no such file or folder" in problem(tmp_path / "none.py").what
    assert "there is no such file or folder" in problem(tmp_path / "none").what
    assert "there is no such file or folder" in problem("no-module.here").what
    assert "it holds no Python package" in problem(tmp_path).what
    (tmp_path / "text.txt").write_text("OPERATORS = ()")
    assert "text.txt is no Python source" in problem(tmp_path / "text.txt").what
    assert "there is no module 'surely_not_there'" in problem("surely_not_there.inner").what
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "", "gated_pool/__init__.py")
    assert problem("gatedpool").fix.startswith("did you mean gated_pool? ")
    shutil.rmtree(tmp_path / "gated_pool")
    for name in ("one", "two"):
        written(tmp_path, "", f"{name}/__init__.py")
    found = problem(tmp_path)
    assert "it holds 2 packages: one, two" in found.what and str(tmp_path / "one") in found.fix
    written(tmp_path, "", "with-dash/__init__.py")
    assert "'with-dash' is no name for a Python module" in problem(tmp_path / "with-dash").what
    written(tmp_path, MIXING.read_text(encoding="utf-8"), "co:lon/mine.py")
    assert "its path has a ':'" in problem(tmp_path / "co:lon" / "mine.py").what


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "OPERATORS = ()")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module_files, "open", refuse, raising=False)  # root may read what it likes
    found = problem(path)
    assert "it cannot be read: Permission denied" in found.what and found.where == str(path)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"x = 1\x00\n", b"# coding: nothing\nx = 1\n"])
def test_a_file_that_is_no_text(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(data)
    assert str(tmp_path / "mine.py") in problem(tmp_path / "mine.py").where


def test_two_packages_with_one_module_name(tmp_path: Path) -> None:
    text = MIXING.read_text(encoding="utf-8")
    one = written(tmp_path, text, "one/gauges/__init__.py")
    two = written(tmp_path, text.replace("LogOdds", "OddsTwo"), "two/gauges/__init__.py")
    found = problem(one.parent, two.parent)
    assert f"--ops {two.parent}: there are two modules called 'gauges'" in found.what
    assert str(one) in found.where and str(two) in found.where
    for name in ("json", "email"):  # imported, and of the standard library
        standard = written(tmp_path, text, f"{name}/__init__.py")
        assert f"there are two modules called {name!r}" in problem(standard.parent).what
    same = [written(tmp_path, text.replace("LogOdds", name), f"{name}/ops.py") for name in ("OddsA", "OddsB")]
    assert (
        "ChannelMixing is the name of another operator" in problems(*same)[0].what
    )  # ops is the name of both files


def test_every_package_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    paths = [written(tmp_path, f"raise ValueError({name!r})", f"{name}.py") for name in ("one", "two")]
    found = problems(tmp_path / "none.py", *paths)
    assert [each.what.rpartition(": ")[2] for each in found] == [
        "there is no such file or folder",
        "one",
        "two",
    ]


def test_a_command_ends_with_a_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, RAISING["raises"][0])
    assert main(["check", "model.onnx", "--ops", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err and f"{path}, line 2" in said.err


def test_ctrl_c_ends_an_import(tmp_path: Path) -> None:
    path = written(tmp_path, "raise KeyboardInterrupt")
    assert main(["ops", "--ops", str(path)]) == 130


def test_a_task_of_a_batch_outlives_a_module_that_exits(tmp_path: Path) -> None:
    path = written(tmp_path, RAISING["silent"][0])
    outcome = batch_worker._run(Console(), ["check", "model.onnx", "--ops", str(path)])
    assert outcome.exit_code == 2 and "ends the program" in outcome.problems[0].what

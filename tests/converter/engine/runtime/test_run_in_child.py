"""The real child process, with and without a GPU: refusals before it and in it, and its death."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.converter.engine.problems import problem_of as said_by
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.runtime import run_in_child
from trtsmith.converter.engine.runtime.run_in_child import death_problem, describe_engine, run_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest


def problem_of(request: RunRequest) -> str:
    return said_by(lambda: run_engine(request, [{"x": np.ones(3, np.float32)}]))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    text = problem_of(RunRequest(tmp_path / "m.plan", (tmp_path / "p.so",)))
    assert str(tmp_path / "m.plan") in text and "correct --plugins" in text


def test_no_gpu_is_said_without_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_in_child, "find_gpu", lambda: None)
    monkeypatch.setattr(run_in_child, "run_child", None)
    (tmp_path / "m.plan").write_bytes(b"x" * 100)
    assert "There is no NVIDIA GPU" in problem_of(RunRequest(tmp_path / "m.plan"))
    assert "is not installed" in problem_of(RunRequest(tmp_path / "m.plan", flavour="tensorrt"))


def test_what_the_child_finds_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real worker: without a GPU it says so itself; with one, that the file is no engine."""
    monkeypatch.setattr(run_in_child, "find_gpu", lambda: Gpu("pretended", (9, 0)))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "m.plan").write_bytes(b"x" * 100)
    said: list[str] = []
    with pytest.raises(UsageError) as error:
        describe_engine(RunRequest(tmp_path / "m.plan", flavour="tensorrt_rtx"), said.append)
    what = error.value.problems[0].what
    assert ("no NVIDIA GPU" if find_gpu() is None else "no engine of this TensorRT") in what
    assert said[0] == "opening the GPU"
    assert os.listdir(tmp_path / "tmp") == []


def test_arrays_that_no_engine_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_in_child, "find_gpu", lambda: Gpu("pretended", (9, 0)))
    monkeypatch.setattr(run_in_child, "run_child", None)  # said before there is a child
    (tmp_path / "m.plan").write_bytes(b"x" * 100)
    records = np.zeros(3, [("a", "f4")])
    with pytest.raises(UsageError, match="'x' holds records"):
        run_engine(RunRequest(tmp_path / "m.plan", flavour="tensorrt_rtx"), [{"x": records}])


def test_deaths(tmp_path: Path) -> None:
    library = tmp_path / "p.so"
    request = RunRequest(tmp_path / "m.plan", (library,))
    crash = ChildDied("died of SIGSEGV", "running the engine", "INFO: words\nterminate\n", timed_out=False)
    problem = death_problem(crash, request)
    assert "died of SIGSEGV while running the engine" in problem.what and "terminate" in problem.what
    assert f"trtsmith plugin test {library}" in problem.fix and str(library) in problem.where
    loading = ChildDied("exited with code 1", f"loading the plugin library {library}", "", timed_out=False)
    assert "load the library in a small program" in death_problem(loading, request).fix
    late = ChildDied("did not finish within 3 s", "running the engine", "", timed_out=True)
    assert "--timeout" in death_problem(late, request).fix

"""What is missing on a machine is said, with how to get it."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pytest

from trtsmith.converter.compile import build_tools, headers, nvcc, sdk
from trtsmith.converter.compile.build_tools import find_tools
from trtsmith.converter.compile.logged import SetupError

SAID: list[str] = []


def tools(tmp_path: Path, **env: str) -> build_tools.BuildTools:
    full = {**os.environ, **env}
    return find_tools(full, tmp_path / "logs", tmp_path / "logs" / "nvcc.txt", SAID.append)


def refused(tmp_path: Path, **env: str) -> SetupError:
    with pytest.raises(SetupError) as caught:
        tools(tmp_path, **env)
    problem = caught.value.problem
    assert caught.value.exit_code == 2 and all(problem.to_json().values())
    return caught.value


def test_a_machine_without_a_host_compiler(tmp_path: Path) -> None:
    assert "C++ compiler" in refused(tmp_path, PATH=str(tmp_path), CXX="").problem.what


def test_a_machine_without_cmake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cmake", None)
    monkeypatch.setattr(build_tools.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(build_tools, "require_host_compiler", lambda _: None)
    error = refused(tmp_path)
    assert "cmake is not there" in error.problem.what and "trtsmith[cuda]" in error.problem.fix


def test_a_machine_without_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "candidates", lambda *_: iter([tmp_path / "nvcc"]))
    error = refused(tmp_path)
    assert "no CUDA compiler" in error.problem.what and "trtsmith[cuda]" in error.problem.fix


def test_headers_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without an index to reach. Nothing is left behind."""
    monkeypatch.setattr(headers, "candidates", lambda *_: iter(()))
    monkeypatch.setattr(build_tools, "cache_folder", lambda *_: tmp_path / "cache")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    error = refused(tmp_path, TRTSMITH_TENSORRT_INCLUDE="")
    assert "TRTSMITH_TENSORRT_INCLUDE" in error.problem.fix
    assert [path.name for path in (tmp_path / "cache").iterdir()] == []


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(headers, "candidates", lambda *_: iter(()))
    monkeypatch.setattr(build_tools, "cache_folder", lambda *_: tmp_path / "cache" / "inner")
    error = refused(tmp_path, TRTSMITH_TENSORRT_INCLUDE="")
    assert "XDG_CACHE_HOME" in error.problem.fix


def test_a_compiler_that_passed_is_not_probed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tools(tmp_path)
    monkeypatch.setattr(nvcc, "probe", lambda *_: "it was probed")
    assert tools(tmp_path) == first


def test_an_installation_keeps_headers_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "SOURCES", tmp_path)
    assert sdk.cache_folder(tmp_path / "home") == tmp_path / "home" / ".cache" / "trtsmith"
    assert sdk.cache_folder(tmp_path / "home", str(tmp_path / "own")) == tmp_path / "own" / "trtsmith"


def test_a_wheel_is_unpacked_where_headers_are_looked_for(tmp_path: Path) -> None:
    """What fetch leaves behind is what find finds."""
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in (
            ("NvInfer.h", ""),
            ("NvInferRuntime.h", ""),
            ("NvInferVersion.h", "#define NV_TENSORRT_MAJOR 10\n#define NV_TENSORRT_MINOR 14\n"),
        ):
            archive.writestr(f"{headers.WHEEL_FOLDER}/{name}", text)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    made = headers.unpack(wheel, digest, headers.fetched_folder(tmp_path))
    assert headers.find({}, tmp_path, tmp_path / "root") == made

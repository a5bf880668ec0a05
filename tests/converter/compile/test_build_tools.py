"""Missing tools are reported with how to get them; the SDK in the wheel is complete."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from check_wheel import SDK
from tests.processes import ROOT
from trtsmith.converter.compile import build_tools, headers, nvcc, sdk
from trtsmith.converter.compile.build_tools import find_tools
from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.compile.sdk import kernel_headers, sdk_folder

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
    assert "cmake is not installed" in error.problem.what and "trtsmith[cuda]" in error.problem.fix


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


SOURCES = ROOT / "plugins_cpp"


def shipped() -> list[str]:
    """Every file that Sdk.cmake installs, from plugins_cpp."""
    text = (SOURCES / "cmake" / "Sdk.cmake").read_text(encoding="utf-8")
    (kernels,) = re.findall(r"set\(TRTSMITH_SDK_KERNEL_HEADERS\s+([^)]*)\)", text)
    folders = [
        name
        for names in re.findall(r"install\(DIRECTORY ([\w ]+?) DESTINATION", text)
        for name in names.split()
    ]
    files = [
        name
        for names in re.findall(r"install\(FILES ([\w./ ]+?) DESTINATION", text)
        for name in names.split()
    ]
    inside = [
        path.relative_to(SOURCES).as_posix() for folder in folders for path in (SOURCES / folder).rglob("*.*")
    ]
    return [*(f"kernels/{name}" for name in kernels.split()), *inside, *files]


def test_every_file_is_there_and_includes_only_what_is_shipped() -> None:
    files = shipped()
    assert len(files) > 25
    for name in files:
        path = SOURCES / name
        assert path.is_file(), name
        for included in re.findall(r'^#include "(.+?)"', path.read_text(encoding="utf-8"), re.MULTILINE):
            beside = (Path(name).parent / included).as_posix()
            assert included in files or beside in files or included == "operators.hpp", (name, included)


def test_the_check_of_the_wheel_asks_for_what_is_shipped() -> None:
    assert {name.removeprefix("trtsmith/plugins_cpp/") for name in SDK} <= {*shipped()}


def test_a_checkout_is_its_own_sdk() -> None:
    assert sdk_folder() == SOURCES.resolve()
    assert {"dispatch", "convert", "dtype"} <= kernel_headers(sdk_folder())


def test_the_extra_is_what_set_up_installs() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extra,) = re.findall(r"^cuda = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    wanted = [name for name in re.findall(r'"(.+?)"', extra) if "==" in name]
    assert wanted == list(nvcc.WHEELS)

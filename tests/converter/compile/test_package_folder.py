"""Which folders are packages that can be compiled, and the messages for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.compile.package_build import check_architectures
from trtsmith.converter.compile.package_folder import PackageFolder, find_package

ENTRY = "trtsmith_operator(Toy\n  DATA_DEPENDENT_SHAPES BINDING toy.cpp KERNELS toy.cu more.cu)\n"


def package(folder: Path, text: str = ENTRY) -> Path:
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "__init__.py").touch()
    (folder / "plugins.cmake").write_text(text)
    return folder


def add_sources(folder: Path) -> None:
    for name in ("ops/toy.cpp", "kernels/toy.cu", "kernels/more.cu"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


def test_a_package_is_found_with_its_operators(tmp_path: Path) -> None:
    found = find_package(package(tmp_path, f"# trtsmith_operator(Old BINDING a KERNELS b)\n{ENTRY}"))
    assert found == PackageFolder(tmp_path, "toy")
    assert found.operators() == ("Toy",)
    assert found.library() == tmp_path / "toy" / "lib" / "libtoy_plugins.so"
    assert found.library(v2=True).name == "libtoy_plugins_v2.so"


def test_tests_are_no_package(tmp_path: Path) -> None:
    (package(tmp_path) / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    assert find_package(tmp_path).name == "toy"


@pytest.mark.parametrize("missing", ["ops/toy.cpp", "kernels/toy.cu", "kernels/more.cu"])
def test_a_source_that_is_not_there_is_named(tmp_path: Path, missing: str) -> None:
    add_sources(package(tmp_path))
    found = find_package(tmp_path)
    found.require_sources()
    (tmp_path / missing).unlink()
    with pytest.raises(SetupError, match=missing) as caught:
        found.require_sources()
    assert "trtsmith_operator(Toy" in caught.value.problem.where


def test_folders_that_are_no_package(tmp_path: Path) -> None:
    for folder, words in (
        (tmp_path / "gone", "no such folder"),
        (tmp_path, "no plugins.cmake"),
    ):
        with pytest.raises(SetupError, match=words):
            find_package(folder)
    package(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").touch()
    with pytest.raises(SetupError, match="2 Python packages: other, toy"):
        find_package(tmp_path)


@pytest.mark.parametrize("text", ["", "86", "86,90", "sm86;sm_90a", "75 120", "release"])
def test_architectures(text: str) -> None:
    check_architectures(text)


@pytest.mark.parametrize("text", ["8.6", "hopper", "86,x", ",", "release,90"])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(SetupError, match="is not a CUDA architecture"):
        check_architectures(text)

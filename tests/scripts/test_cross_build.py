"""The aarch64 build: its settings, its downloads, and the libraries for each driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envsetup import aarch64_packages, cross
from trtsmith.converter.compile import nvcc
from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.engine.libraries import folder_for_driver


@pytest.mark.parametrize(
    ("platform", "gpus", "why"),
    [
        ("xavier", "", "TensorRT 8.5"),
        ("aarch64", "72;87", "Jetson Xavier cannot be built for"),
        ("riscv64", "", "no platform riscv64"),
    ],
)
def test_what_cannot_be_built_for_is_refused(platform: str, gpus: str, why: str) -> None:
    with pytest.raises(SetupError, match=why):
        cross.platform_asked({"TRTSMITH_PLATFORM": platform, "TRTSMITH_CUDA_ARCHITECTURES": gpus})


@pytest.mark.parametrize(("platform", "found"), [("", None), ("x86_64", None), ("aarch64", "aarch64")])
def test_a_platform_is_asked_for(platform: str, found: str | None) -> None:
    assert cross.platform_asked({"TRTSMITH_PLATFORM": platform}) == found


@pytest.mark.parametrize(
    ("asked", "cuda12", "cuda13"),
    [("", "87", "87;90;100;110;121"), ("sm87,110", "87", "87;110"), ("110", "", "110")],
)
def test_each_build_is_for_its_gpus(asked: str, cuda12: str, cuda13: str) -> None:
    env = {"TRTSMITH_CUDA_ARCHITECTURES": asked}
    assert [cross.architectures(env, build) for build in cross.ARCHITECTURES] == [cuda12, cuda13]


def test_packages_are_pinned_and_the_compiler_is_one_release() -> None:
    pins = aarch64_packages.pins(aarch64_packages.PINS.read_text(encoding="utf-8"))
    assert {pin.folder for pin in pins} >= {"compiler", "cuda12", "cuda13", "emulator"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", pin.sha256) and "=" in pin.package for pin in pins)
    assert set(nvcc.WHEELS) <= {pin.package for pin in pins if pin.folder == "cuda13"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", "# deb http://a.example/debian x main\ndeb http://b.example/debian bookworm main\n"),
        ("sources.list.d/debian.sources", "Types: deb\nURIs: http://b.example/debian\nSuites: bookworm\n"),
    ],
)
def test_debians_mirror_is_the_machines_own(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert aarch64_packages.debian_mirror({}, tmp_path) == "http://b.example/debian"
    assert aarch64_packages.debian_mirror({"TRTSMITH_DEBIAN": "http://c"}, tmp_path) == "http://c"


def test_without_a_mirror_of_debian_it_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="TRTSMITH_DEBIAN"):
        aarch64_packages.debian_mirror({}, tmp_path)


def test_a_driver_of_cuda_12_gets_the_libraries_for_it(tmp_path: Path) -> None:
    def folders(*drivers: int) -> list[Path]:
        return [folder_for_driver(tmp_path, lambda cuda=cuda: cuda) for cuda in drivers]  # type: ignore[misc]

    assert (
        folder_for_driver(tmp_path, pytest.fail) == tmp_path
    )  # a wheel for x86_64 has none, and asks no driver
    (tmp_path / "cuda12").mkdir()
    assert folders(12060, 12040) == [tmp_path / "cuda12"] * 2
    assert folders(13000, 13020, 0) == [tmp_path] * 3

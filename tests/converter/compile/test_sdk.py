"""The SDK that the wheel ships is whole, and the extra `cuda` is the compiler that set-up installs."""

from __future__ import annotations

import re
from pathlib import Path

from check_wheel import SDK
from tests.processes import ROOT
from trtsmith.converter.compile import nvcc
from trtsmith.converter.compile.sdk import kernel_headers, sdk_folder

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

"""Fetches and unpacks the packages of Debian and PyPI for compiling and emulating aarch64 on x86_64."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envsetup import ROOT
from envsetup.steps import setup_error
from envsetup.wheels import unpacked_once
from trtsmith.converter.compile.logged import run_logged

PINS = Path(__file__).with_suffix(".txt")
CACHE = ROOT / ".cache" / "aarch64"
PREFIX = "aarch64-linux-gnu-"
WHEEL_PLATFORMS = {
    "pypi": (),
    "pypi-aarch64": tuple(
        f"manylinux{policy}_aarch64" for policy in ("2014", "_2_26", "_2_27", "_2_28", "_2_31", "_2_35")
    ),
}
"""Where a wheel is for, by the source in the pins; pip has to be given each tag."""

NVCC_PROFILE = """\
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib"
"""
"""Where nvcc finds its parts: Debian's profile names places of an installation."""


@dataclass(frozen=True)
class Pin:
    """A pinned package. source: one of WHEEL_PLATFORMS, or a release of Debian. paths: those wanted; none: all."""

    folder: str
    source: str
    package: str
    sha256: str
    paths: tuple[str, ...]


def pins(text: str) -> list[Pin]:
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return [
        Pin(folder, source, package, sha256, tuple(paths)) for folder, source, package, sha256, *paths in rows
    ]


def fetched(folder: str) -> Path:
    """The complete folder of pinned packages. Raises SetupError if a package is unavailable or has another hash."""

    def fill(work: Path) -> None:
        mine = [pin for pin in pins(PINS.read_text(encoding="utf-8")) if pin.folder == folder]
        target = work / "unpacked"
        target.mkdir()
        for source in sorted({pin.source for pin in mine}):
            packages = [pin for pin in mine if pin.source == source]
            if source in WHEEL_PLATFORMS:
                _unpack_wheels(packages, work / source, target)
            else:
                _unpack_debs(packages, work / source, target)
        _FINISH.get(folder, lambda _: None)(target)

    return unpacked_once(CACHE / folder, fill)


def _unpack_wheels(wanted: Sequence[Pin], work: Path, target: Path) -> None:
    work.mkdir()
    lines = [f"{pin.package} --hash=sha256:{pin.sha256}" for pin in wanted]
    (work / "pins.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--require-hashes", "--only-binary=:all:"]
    if platforms := WHEEL_PLATFORMS[wanted[0].source]:
        command += [f"--platform={name}" for name in platforms]
        command += ["--implementation=cp", "--python-version=3.11"]  # that of the emulated machine
    run_logged(
        f"fetching {len(wanted)} wheels for {wanted[0].folder}",
        [*command, "-r", str(work / "pins.txt"), "-d", str(work)],
        CACHE / f"{wanted[0].folder}.log",
    )
    for wheel in work.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    for program in (*target.glob("nvidia/*/bin/*"), *target.glob("nvidia/*/nvvm/bin/*")):
        program.chmod(0o755)  # zipfile forgets it


def _unpack_debs(wanted: Sequence[Pin], work: Path, target: Path) -> None:
    """Unpacks Debian packages with apt's lists and settings in `work`, which needs no root and leaves the machine's own
    alone.
    """
    for name in ("lists/partial", "archives/partial", "debs"):
        (work / name).mkdir(parents=True)
    source = (
        f"deb [arch=amd64,arm64 trusted=yes] {debian_mirror(os.environ)} {wanted[0].source} main non-free\n"
    )
    (work / "sources.list").write_text(source, encoding="utf-8")  # trusted: each file is held to its hash
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": work,
        "APT::Sandbox::User": "",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    command += ["-oAPT::Architectures::=amd64", "-oAPT::Architectures::=arm64"]
    log = CACHE / f"{wanted[0].folder}.log"
    run_logged(f"listing Debian's {wanted[0].source}", [*command, "update"], log)
    download = ["env", "-C", str(work / "debs"), *command, "download", *(pin.package for pin in wanted)]
    run_logged(f"fetching {len(wanted)} packages of Debian for {wanted[0].folder}", download, log)
    debs = {hashlib.sha256(deb.read_bytes()).hexdigest(): deb for deb in (work / "debs").iterdir()}
    for pin in wanted:
        if pin.sha256 not in debs:
            raise setup_error(
                f"{pin.package} of Debian has not the SHA-256 that is pinned.",
                ", ".join(sorted(deb.name for deb in debs.values())),
                f"SHA-256 {pin.sha256} ({PINS.name})",
                "do not use that file: find out where apt-get got it from",
            )
        _unpack_deb(debs[pin.sha256], target, pin.paths)


def _unpack_deb(deb: Path, target: Path, paths: Sequence[str]) -> None:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not paths or any(name == path or name.startswith(f"{path}/") for path in paths):
                    archive.extract(member, target, filter="tar")
        process.stdout.read()  # what is padding to tarfile


def debian_mirror(env: Mapping[str, str], apt: Path = Path("/etc/apt")) -> str:
    """TRTSMITH_DEBIAN, else the Debian mirror of this machine's apt. Raises SetupError without one."""
    files = (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*")))
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    found = (re.search(r"^[^#\n]*?(https?://\S+/debian)/?\s*(?:\s|$)", text, re.MULTILINE) for text in texts)
    mirror = env.get("TRTSMITH_DEBIAN") or next((match.group(1) for match in found if match), None)
    if mirror is None or shutil.which("apt-get") is None:
        raise setup_error(
            "The packages of Debian for aarch64 cannot be fetched.",
            "PATH" if mirror else str(apt),
            "apt-get, and a mirror of Debian among its sources or in TRTSMITH_DEBIAN",
            "build on Debian, or on Ubuntu with TRTSMITH_DEBIAN=ADDRESS",
        )
    return mirror


def _finish_compiler(target: Path) -> None:
    """Adds programs under tools/ that run in place, with their own libraries and the sysroot beside them."""
    home = CACHE / "compiler"
    tools = target / "tools"
    tools.mkdir()
    for name in ("g++-10", "ar", "ranlib", "nm", "strip", "objcopy", "objdump", "readelf", "ld"):
        tool = tools / f"{PREFIX}{name.removesuffix('-10')}"
        sysroot = f"--sysroot={home} " if name == "g++-10" else ""
        tool.write_text(
            f"#!/bin/sh\nLD_LIBRARY_PATH={home}/usr/lib/x86_64-linux-gnu exec {home}/usr/bin/{PREFIX}{name} "
            f'{sysroot}"$@"\n',
            encoding="utf-8",
        )
        tool.chmod(0o755)


def _finish_cuda12(target: Path) -> None:
    """Arranges Debian's packages as a toolkit folder."""
    debian = target / "usr/lib/nvidia-cuda-toolkit"
    (target / "nvvm").mkdir()
    (debian / "libdevice").rename(target / "nvvm/libdevice")
    (debian / "bin").rename(target / "bin")
    for program in (target / "usr/bin").iterdir():
        program.rename(target / "bin" / program.name)
    (target / "usr/include").rename(target / "include")
    (target / "usr/lib/aarch64-linux-gnu").rename(target / "lib")
    shutil.rmtree(target / "usr")
    profile = target / "bin/nvcc.profile"
    profile.unlink(missing_ok=True)
    profile.write_text(NVCC_PROFILE, encoding="utf-8")


_FINISH = {"compiler": _finish_compiler, "cuda12": _finish_cuda12}

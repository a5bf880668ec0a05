"""Fetches wheels that tests unpack but do not install: pinned by hash, once for all processes."""

from __future__ import annotations

import fcntl
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from trtsmith.converter.compile.logged import run_logged


def pinned(pins: Path) -> dict[str, tuple[str, ...]]:
    """Version -> its lines of a requirements file with hashes; a version may need several packages."""
    found: dict[str, tuple[str, ...]] = {}
    for line in pins.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            version = line.split()[0].partition("==")[2]
            found[version] = (*found.get(version, ()), line)
    return found


def fetch(version: str, lines: tuple[str, ...], cache: Path) -> Path:
    """The folder with the unpacked wheels of one version; downloads them if needed.

    Raises SetupError, with pip's last lines, if pip fails. Processes that want the same version wait for the first.
    """

    def fill(work: Path) -> None:
        (work / "pins.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
        ]
        command += ["--disable-pip-version-check", "-r", str(work / "pins.txt"), "-d", str(work / "wheels")]
        run_logged(f"fetching {lines[0].split()[0]}", command, cache / f"{version}.log")
        for wheel in sorted((work / "wheels").glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(work / "unpacked")

    return unpacked_once(cache / version, fill)


def unpacked_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """The complete folder. fill: makes `unpacked` in an empty folder beside it, if it is missing."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        folder.with_name(f"{folder.name}.lock").open("w") as lock,
        tempfile.TemporaryDirectory(dir=folder.parent) as temporary,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        fill(Path(temporary))
        (Path(temporary) / "unpacked").rename(folder)
    return folder

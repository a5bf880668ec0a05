"""Finds TensorRT's C++ headers: the user's, else a header-only copy from a PyPI wheel that is pinned by its hash."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from trtsmith.converter.compile.logged import Say, SetupError, run_logged, say

# Plugins of the V3 kind are described by these headers from 10.0; IPluginV3OneBuildV2 by 10.3.
OLDEST = (10, 3)

# TensorRT 10.14.1's headers (Apache-2.0). Only this folder is unpacked; the wheel's dependencies are not installed.
WHEEL = "kernel-lens==2.0.1"
WHEEL_SHA256 = "07cc714e8b5e7f34b672f7c7fad93febe7c747be5837ba276b1527370134ffe0"
WHEEL_FOLDER = "kernel_lens/include/tensorrt"

SYSTEM_FOLDERS = (
    "usr/include/x86_64-linux-gnu",
    "usr/include/aarch64-linux-gnu",
    "usr/local/tensorrt/include",
    "usr/local/TensorRT/include",
    "opt/tensorrt/include",
    "usr/local/include",
    "usr/include",
)


def version_of(folder: Path) -> tuple[int, int] | None:
    """Returns (major, minor) from NvInferVersion.h, or None if the folder lacks the headers that a plugin needs."""
    if not (folder / "NvInfer.h").is_file() or not (folder / "NvInferRuntime.h").is_file():
        return None
    try:
        text = (folder / "NvInferVersion.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # 10.x writes `#define TRT_MAJOR_ENTERPRISE 10` and `NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE`; older ones a number.
    defines: dict[str, str] = dict(re.findall(r"^\s*#\s*define\s+(\w+)\s+(\w+)", text, re.MULTILINE))
    numbers = []
    for name in ("NV_TENSORRT_MAJOR", "NV_TENSORRT_MINOR"):
        value: str = defines.get(name, "")
        value = defines.get(value, value)
        if not value.isdigit():
            return None
        numbers.append(int(value))
    return numbers[0], numbers[1]


def candidates(env: Mapping[str, str], system: Path = Path("/")) -> Iterator[Path]:
    """Lists the folders in which an installed TensorRT may keep its headers, best first."""
    for name in ("TensorRT_ROOT", "TENSORRT_ROOT", "TRT_ROOT"):
        if env.get(name):
            yield Path(env[name]) / "include"
            yield Path(env[name])
    for folder in SYSTEM_FOLDERS:
        yield system / folder


def find(env: Mapping[str, str], cache: Path, system: Path = Path("/"), say: Say = say) -> Path | None:
    """Returns the folder with NvInfer.h, or None if it must be fetched into `cache`.

    Raises SetupError if TRTSMITH_TENSORRT_INCLUDE is set to a folder that does not do: what a user asks for is never
    replaced in silence.
    """
    asked = env.get("TRTSMITH_TENSORRT_INCLUDE")
    if asked:
        version = version_of(Path(asked))
        if version is None or version < OLDEST:
            found = "no TensorRT headers" if version is None else f"TensorRT {version[0]}.{version[1]}"
            raise SetupError(
                f"TRTSMITH_TENSORRT_INCLUDE names a folder with {found}.",
                asked,
                f"NvInfer.h and its companions, of TensorRT {OLDEST[0]}.{OLDEST[1]} or newer",
                "correct TRTSMITH_TENSORRT_INCLUDE, or unset it and the headers are fetched",
            )
        return Path(asked)
    for folder in candidates(env, system):
        version = version_of(folder)
        if version is not None and version >= OLDEST:
            return folder
        if version is not None:
            say(
                f"not using {folder}: TensorRT {version[0]}.{version[1]} is older than {OLDEST[0]}.{OLDEST[1]}"
            )
    fetched = fetched_folder(cache)
    return fetched if version_of(fetched) else None


def fetched_folder(cache: Path) -> Path:
    return cache / "tensorrt-headers"


def fetch(cache: Path, pip: Sequence[str], log: Path, say: Say = say) -> Path:
    """Downloads the header wheel with `pip` (an argv prefix) and unpacks its headers. Returns their folder."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headers-", dir=cache) as folder:
        pinned = Path(folder) / "pinned.txt"
        pinned.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
        argv = [
            *pip,
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            "-d",
            folder,
            "-r",
            str(pinned),
        ]
        run_logged("fetching TensorRT's headers", argv, log, say=say)
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise SetupError(
                f"pip downloaded {len(wheels)} wheels for {WHEEL}.",
                str(log),
                "one wheel",
                "set TRTSMITH_TENSORRT_INCLUDE to the headers of an installed TensorRT",
            )
        return unpack(wheels[0], WHEEL_SHA256, fetched_folder(cache))


def unpack(wheel: Path, sha256: str, target: Path) -> Path:
    """Unpacks WHEEL_FOLDER's headers into target, all or none. Raises SetupError if the wheel is not the pinned one."""
    actual = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if actual != sha256:
        raise SetupError(
            f"The header wheel has SHA-256 {actual}.",
            str(wheel),
            f"SHA-256 {sha256} ({WHEEL})",
            "do not use that file; set TRTSMITH_TENSORRT_INCLUDE to the headers of an installed TensorRT instead",
        )
    scratch = Path(tempfile.mkdtemp(prefix="headers-", dir=target.parent))
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                if path.parent == PurePosixPath(WHEEL_FOLDER) and path.suffix == ".h":
                    (scratch / path.name).write_bytes(archive.read(name))
        if version_of(scratch) is None:
            raise SetupError(
                "The header wheel holds no TensorRT headers.",
                f"{wheel}: {WHEEL_FOLDER}",
                "NvInfer.h, NvInferRuntime.h and NvInferVersion.h",
                "set TRTSMITH_TENSORRT_INCLUDE to the headers of an installed TensorRT",
            )
        scratch.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        scratch.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target

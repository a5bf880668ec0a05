"""Finds all that compiling a package needs: a C++ compiler, nvcc, TensorRT's headers, CMake and Ninja."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trtsmith.converter.compile import headers, nvcc
from trtsmith.converter.compile.host_compiler import require_host_compiler
from trtsmith.converter.compile.logged import Say, SetupError
from trtsmith.converter.compile.sdk import cache_folder

EXTRA = "pip install 'trtsmith[cuda]'"


@dataclass(frozen=True)
class BuildTools:
    """The tools of a build. toolkit: nvcc. include: the folder with NvInfer.h. cmake, ninja: the programs."""

    toolkit: nvcc.Toolkit
    include: Path
    cmake: Path
    ninja: Path


def find_tools(env: Mapping[str, str], logs: Path, stamp: Path, say: Say) -> BuildTools:
    """Finds all tools, or raises a SetupError that says what is missing and how to get it. Fetches TensorRT's headers.

    logs:  the folder for what pip prints. stamp: a file that remembers which nvcc passed its probe, which takes seconds.
    """
    require_host_compiler(env)
    cmake, ninja = _cmake(), _ninja()
    toolkit = nvcc.find(env, nvcc.importable_folders(), _trusted(stamp), say)
    if toolkit is None:
        raise SetupError(
            "there is no CUDA compiler",
            "CUDACXX, PATH, CUDA_HOME, /usr/local/cuda and this Python's packages",
            f"nvcc {nvcc.OLDEST[0]}.{nvcc.OLDEST[1]} or newer that can compile with this machine's C++ compiler",
            f"{EXTRA}, or set TRTSMITH_CUDA to the folder of a CUDA toolkit",
        )
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(nvcc.identity(toolkit, env) + "\n", encoding="utf-8")
    return BuildTools(toolkit, _include(env, logs, say), cmake, ninja)


def _include(env: Mapping[str, str], logs: Path, say: Say) -> Path:
    cache = cache_folder(Path.home(), env.get("XDG_CACHE_HOME", ""))
    found = headers.find(env, cache, say=say)
    if found is not None:
        return found
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    try:
        return headers.fetch(cache, pip, logs / "headers.log", say)
    except SetupError as error:
        problem = error.problem
        fix = f"{problem.fix}; or set TRTSMITH_TENSORRT_INCLUDE to the folder with NvInfer.h of an installed TensorRT"
        raise SetupError(replace(problem, fix=fix)).with_tail(error.tail) from error
    except OSError as error:
        raise SetupError(
            f"TensorRT's headers cannot be stored: {error.strerror}",
            str(cache),
            "a folder that can be written",
            "set XDG_CACHE_HOME to one, or TRTSMITH_TENSORRT_INCLUDE to the headers of an installed TensorRT",
        ) from error


def _cmake() -> Path:
    folder = ""
    with suppress(ImportError):
        import cmake

        folder = getattr(cmake, "CMAKE_BIN_DIR", "")
    return _program("cmake", folder)


def _ninja() -> Path:
    folder = ""
    with suppress(ImportError):
        import ninja

        folder = getattr(ninja, "BIN_DIR", "")
    return _program("ninja", folder)


def _program(name: str, folder: str) -> Path:
    """The program of the wheel, in `folder`, else the one on PATH."""
    own = Path(folder) / name
    found = str(own) if folder and own.is_file() else shutil.which(name)
    if found is None or not _runs(found):
        raise SetupError(
            f"{name} is not installed" if found is None else f"{name} does not run",
            found or "this Python's packages and PATH",
            "CMake 3.24 or newer, and Ninja",
            EXTRA,
        )
    return Path(found)


def _runs(program: str) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _trusted(stamp: Path) -> list[str]:
    try:
        return [stamp.read_text(encoding="utf-8").removesuffix("\n")]
    except (OSError, UnicodeDecodeError):
        return []

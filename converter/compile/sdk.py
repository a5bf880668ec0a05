"""Finds the SDK: the C++ and CUDA headers, adapters and CMake files with which users' operators are compiled."""

from __future__ import annotations

from pathlib import Path

from trtsmith.converter.base.process.package_folders import SOURCES
from trtsmith.converter.compile.logged import SetupError

SDK = SOURCES / "plugins_cpp"

BUILD = "package"
"""The folder of the SDK with the CMake project that compiles a package."""


def sdk_folder() -> Path:
    """Returns trtsmith/plugins_cpp of an installation, plugins_cpp of a checkout. Raises SetupError if it is missing."""
    if (SDK / BUILD / "CMakeLists.txt").is_file():
        return SDK
    raise SetupError(
        "the headers and CMake files to compile operators with are missing",
        str(SDK),
        "the folder that trtsmith's wheel installs",
        "install trtsmith again: pip install --force-reinstall --no-deps trtsmith",
    )


def cache_folder(home: Path, cache_home: str = "") -> Path:
    """Returns the folder for downloads: .cache of a checkout, else the user's cache.

    cache_home: $XDG_CACHE_HOME.
    """
    if (SOURCES / "pyproject.toml").is_file():
        return SOURCES / ".cache"
    return (Path(cache_home) if cache_home else home / ".cache") / "trtsmith"


def kernel_headers(sdk: Path) -> frozenset[str]:
    """Returns names, without an ending, of the files in the SDK's kernels/: a user's kernel must not have one of them."""
    return frozenset(path.stem for path in (sdk / "kernels").iterdir() if path.is_file())

"""Finds trtsmith's compiled libraries, and reads their manifests."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.package_folders import SOURCES
from trtsmith.converter.engine.builder.gpu import driver_cuda

FOLDER = SOURCES / "converter" / "lib"


def folder_for_driver(folder: Path, cuda: Callable[[], int] = driver_cuda) -> Path:
    """Returns the folder of libraries for the driver's CUDA version, such as 12060; 0 without a driver.

    A static runtime needs a driver of its own CUDA or newer. Wheels for aarch64 have libraries for CUDA 12, too: that is
    what JetPack 6 has.
    """
    older = folder / "cuda12"
    return older if older.is_dir() and 0 < cuda() < 13000 else folder


def library(name: str) -> Path:
    """Returns one of our libraries, `lib<name>.so`. TRTSMITH_LIBRARY_DIR overrides the folder, for development builds."""
    asked = os.environ.get("TRTSMITH_LIBRARY_DIR")
    folder = Path(asked) if asked else folder_for_driver(FOLDER)
    path = folder / f"lib{name}.so"
    if not path.is_file():
        raise UsageError(
            f"{path.name} is missing",
            str(folder),
            "the compiled libraries of trtsmith",
            "install trtsmith with `pip install .`, or run `make setup` in a checkout",
        )
    return path


def plugin_library() -> Path:
    """Returns the IPluginV3 library: TensorRT 10, 11 and TensorRT-RTX."""
    return library("trtsmith_plugins")


def plugin_library_v2() -> Path:
    """Returns the IPluginV2DynamicExt library: TensorRT 10 and earlier."""
    return library("trtsmith_plugins_v2")


def manifest(path: Path) -> dict[str, Any]:
    """Reads the manifest of a trtsmith plugin library: interface, cuda_architectures, operators. Loads the library."""
    entry = ctypes.CDLL(str(path)).trtsmithManifest
    entry.restype = ctypes.c_char_p
    document: dict[str, Any] = json.loads(entry())
    return document


def uncovered(targets: Iterable[str], architectures: str) -> tuple[str, ...]:
    """Lists the targets ("sm86") whose GPUs the library's kernels do not run on.

    architectures: as the manifest has them, "86-real 90": machine code runs on its own major version from its minor
    version on; an entry without "-real" holds PTX too, which every later GPU compiles.
    """
    entries = [
        (int(entry.split("-")[0].rstrip("a")), entry.endswith("-real")) for entry in architectures.split()
    ]

    def runs(sm: int) -> bool:
        return any(
            sm >= built and (not machine_only or sm // 10 == built // 10) for built, machine_only in entries
        )

    return tuple(target for target in targets if target[2:].isdigit() and not runs(int(target[2:])))

"""Prepares the environment of a process that imports TensorRT."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from trtsmith.converter.model.process.package_folders import PACKAGE_ROOT
from trtsmith.converter.operators.sources import VARIABLE
from trtsmith.importers.registry import packages_in_force


def child_environment(flavour: str, work: Path) -> dict[str, str]:
    """The inherited environment, with this package importable and TensorRT-RTX's library by its plain name.

    Its TRTSMITH_OPS names the operator packages that are in force here.

    work: a private folder, which must outlive the child. The parser of TensorRT-RTX 1.7.1 opens
    `libtensorrt_rtx.so` when it meets a plugin, and calls std::terminate if it finds none; the wheel has the
    library as `libtensorrt_rtx.so.1` only.
    """
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if specs := [package.spec for package in packages_in_force() if package.spec]:
        environment[VARIABLE] = os.pathsep.join(specs)
    _prepend(environment, "PYTHONPATH", PACKAGE_ROOT)
    if flavour == "tensorrt_rtx":
        library = _rtx_library()
        if library is not None:
            names = work / "lib"
            names.mkdir()
            (names / "libtensorrt_rtx.so").symlink_to(library)
            _prepend(environment, "LD_LIBRARY_PATH", names)
    return environment


def _rtx_library() -> Path | None:
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    return None if folder is None else next(iter(sorted(folder.glob("libtensorrt_rtx.so.*"))), None)


def _prepend(environment: dict[str, str], name: str, folder: Path) -> None:
    before = environment.get(name)
    environment[name] = f"{folder}{os.pathsep}{before}" if before else str(folder)

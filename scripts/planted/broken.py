"""Builds a plugin library with one broken kernel: the matrix inverse writes its result transposed.

It is built from the sources of plugins_cpp, of which a copy is edited; nothing of it gets into the library that is shipped.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from envsetup import ROOT, native
from envsetup.steps import setup_error
from trtsmith.converter.compile import headers, nvcc
from trtsmith.converter.compile.logged import run_logged
from trtsmith.importers.registry import OPS

RIGHT = "storeElement(a.output, base + i * kSize + j, a.type,"
WRONG = "storeElement(a.output, base + j * kSize + i, a.type,"
LIBRARY = "libtrtsmith_plugins.so"


def break_sources(folder: Path) -> None:
    """Copies plugins_cpp with only the operator of the broken kernel, and breaks its line. Raises SetupError if the line is
    missing.
    """
    shutil.copytree(native.SOURCES, folder)
    sources = {path: path.read_text() for path in (folder / "kernels").glob("*.cu*")}
    kernel = next((path for path, source in sources.items() if RIGHT in source), None)
    if sum(source.count(RIGHT) for source in sources.values()) != 1 or kernel is None:
        what = "The line that is to be broken is not there once."
        fix = "name another line in scripts/planted/broken.py"
        raise setup_error(what, str(folder / "kernels"), RIGHT, fix)
    operator = next(op for op in OPS if kernel.stem.startswith(op.snake_name))
    operators = folder / "ops" / "list.cmake"
    lines = operators.read_text().splitlines(keepends=True)
    operators.write_text(
        "".join(line for line in lines if line.startswith(f"trtsmith_operator({operator.name} "))
    )
    kernel.write_text(sources[kernel].replace(RIGHT, WRONG))


def build_broken(target: Path) -> Path:
    """Builds the sources and puts the library at `target`. Raises SetupError without nvcc, TensorRT's headers, CMake or
    Ninja.
    """
    env = dict(os.environ)
    toolkit = nvcc.find(env, nvcc.importable_folders())
    include = headers.find(env, ROOT / ".cache")
    tools = [Path(found) if (found := shutil.which(name)) else None for name in ("cmake", "ninja")]
    if toolkit is None or include is None or None in tools:
        raise setup_error(
            "The broken library cannot be built here.",
            "nvcc, NvInfer.h, cmake, ninja",
            "all of them, as `make setup` leaves them",
            "run `make setup`, or build it elsewhere and name it with --broken-library",
        )
    cmake, ninja = tools
    with tempfile.TemporaryDirectory(prefix="trtsmith-broken-") as name:
        work = Path(name)
        break_sources(work / "plugins_cpp")
        env |= toolkit.environment(env)
        defines = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_MAKE_PROGRAM": str(ninja),
            "Python_EXECUTABLE": sys.executable,  # one that imports trtsmith, for the generated definitions
            "TRTSMITH_BUILD_V2": "OFF",
            **native.cmake_defines(toolkit, include, env),
        }
        configure = [str(cmake), "-G", "Ninja", "-S", str(work / "plugins_cpp"), "-B", str(work / "build")]
        configure += [f"-D{key}={value}" for key, value in defines.items()]
        run_logged("configuring a broken library", configure, work / "configure.log", env)
        compile_ = [str(cmake), "--build", str(work / "build"), "--target", "trtsmith_plugins"]
        run_logged("compiling a broken library", compile_, work / "build.log", env)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copy2(work / "build" / LIBRARY, unfinished)
        os.replace(unfinished, target)
    print(target, file=sys.stderr)
    return target

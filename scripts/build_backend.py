"""Builds wheels by PEP 517: scikit-build-core, after finding a CUDA compiler and TensorRT's headers.

Compiling takes minutes. What is compiled, for how long, and the files as they are done stand on the output that
`pip install -v` shows; without -v pip keeps it to itself.

So `pip install .` works on a machine without either. The compiler's wheels are asked for as build requirements where
the machine has none. The headers cannot be a requirement, as their wheel depends on torch and triton: they are fetched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scikit_build_core import build as skbuild

from envsetup import ROOT, cross, native
from envsetup.steps import Stamps, setup_error
from trtsmith.converter.compile import headers, nvcc
from trtsmith.converter.compile.host_compiler import jobs, require_host_compiler
from trtsmith.converter.compile.logged import SetupError, say

Settings = Mapping[str, "str | list[str]"]
CACHE = ROOT / ".cache"
LOGS = CACHE / "logs"

build_sdist = skbuild.build_sdist
get_requires_for_build_sdist = skbuild.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = skbuild.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = skbuild.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    return [*skbuild.get_requires_for_build_wheel(dict(config_settings or {})), *_missing_tools()]


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    return [*skbuild.get_requires_for_build_editable(dict(config_settings or {})), *_missing_tools()]


def build_wheel(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel with compiled libraries in converter/lib. One wheel serves every Python, as they do not link it."""
    with _shown_plainly():
        settings = dict(config_settings or {})
        if cross.platform_asked(os.environ):
            os.environ.update(_built_across())
            toolkit, include = cross.toolkit("cuda13"), _headers()
            metadata_directory = None  # made with this machine's platform tag
        else:
            toolkit, include = _tools()
        for name, value in native.cmake_defines(toolkit, include, os.environ).items():
            settings.setdefault(f"cmake.define.{name}", value)
        os.environ.update(toolkit.environment(os.environ))
        os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(jobs(os.environ)))
        say(native.expectation(_programs()[0], os.environ))
        return skbuild.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings | None = None, metadata_directory: str | None = None
) -> str:
    """Installs a pointer to this checkout, with up-to-date libraries in converter/lib."""
    with _shown_plainly():
        tools = native.Tools(*_tools(), *_programs())
        native.build(tools, dict(os.environ), Stamps(native.STAMPS), LOGS, warnings_are_errors=False)
        return skbuild.build_editable(wheel_directory, dict(config_settings or {}), metadata_directory)


def _missing_tools() -> list[str]:
    with _shown_plainly():
        compiler = [] if nvcc.find(os.environ, nvcc.importable_folders()) else list(nvcc.WHEELS)
        # pip, to fetch the headers with: build environments have none.
        return compiler + ([] if headers.find(os.environ, CACHE) else ["pip"])


def _tools() -> tuple[nvcc.Toolkit, Path]:
    require_host_compiler(os.environ)
    toolkit = nvcc.find(os.environ, nvcc.importable_folders())
    if toolkit is None:
        raise setup_error(
            "There is no CUDA compiler.",
            "CUDACXX, PATH, CUDA_HOME, /usr/local/cuda and this build's environment",
            f"nvcc {nvcc.OLDEST[0]}.{nvcc.OLDEST[1]} or newer that can compile with this machine's C++ compiler",
            "build without --no-build-isolation, or: pip install " + " ".join(nvcc.WHEELS),
        )
    return toolkit, _headers()


def _headers() -> Path:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    return headers.find(os.environ, CACHE) or headers.fetch(CACHE, pip, LOGS / "headers.log")


def _programs() -> tuple[Path, Path, Path]:
    """The build's programs: CMake, Ninja and Python."""
    import cmake
    import ninja

    return Path(cmake.CMAKE_BIN_DIR) / "cmake", Path(ninja.BIN_DIR) / "ninja", Path(sys.executable)


def _built_across() -> dict[str, str]:
    """The environment of a cross build for another platform, after building the libraries for CUDA 12."""
    env = cross.environment(os.environ, "cuda12")
    if env["TRTSMITH_CUDA_ARCHITECTURES"]:
        tools = native.Tools(cross.toolkit("cuda12"), _headers(), *_programs())
        stamps, folder = Stamps(cross.FOLDER / "stamps.json"), cross.FOLDER / "cuda12"
        native.build(tools, env, stamps, LOGS, warnings_are_errors=False, folder=folder, prefix=cross.FOLDER)
    return cross.environment(os.environ, "cuda13")


@contextmanager
def _shown_plainly() -> Iterator[None]:
    """Ends with the problem's four parts instead of a traceback."""
    try:
        yield
    except SetupError as error:
        print(f"{error.tail}\n{error}", file=sys.stderr)
        raise SystemExit(1) from None

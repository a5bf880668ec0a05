"""Builds plugins_cpp with CMake and Ninja, and installs its libraries into converter/lib, where a checkout finds them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envsetup import ROOT
from envsetup.steps import Stamps, digest, setup_error, source_files
from trtsmith.converter.compile import nvcc
from trtsmith.converter.compile.host_compiler import host_compiler, jobs, require_host_compiler
from trtsmith.converter.compile.logged import run_logged, say

LIBRARIES = ("libtrtsmith_plugins.so", "libtrtsmith_plugins_v2.so", "libtrtsmith_host.so")
MOST_MIB = 60
"""Of a wheel."""
SETTINGS = ("TRTSMITH_CUDA_ARCHITECTURES", "TRTSMITH_LEAVE_OUT")
"""Environment variables that CMake has as cache variables."""
SOURCES = ROOT / "plugins_cpp"
DEFINITIONS = (ROOT / "importers", ROOT / "converter" / "compile" / "definitions")
"""Of which the build makes headers."""
BUILD = ROOT / "build" / "native"
LIBRARY_DIR = ROOT / "converter" / "lib"
CORE_MINUTES = 22
"""Of one core, to compile for one compute capability: 1,286 s by ninja's log, two jobs on two cores of an AMD EPYC."""
LEAST_MINUTES = 4
"""However many cores there are: the longest file took 194 s there."""
STAMPS = (
    ROOT / "build" / "stamps.json"
)  # apart from .venv's: `pip install -e .` from any environment uses them too


@dataclass(frozen=True)
class Tools:
    """The tools for a build of the libraries. cmake and ninja are the programs of pinned wheels.

    python: one with numpy and onnx, which reads the operators' definitions.
    """

    toolkit: nvcc.Toolkit
    headers: Path
    cmake: Path
    ninja: Path
    python: Path


def cmake_defines(toolkit: nvcc.Toolkit, headers: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The cache variables that this build and the wheel's both pass to plugins_cpp/CMakeLists.txt."""
    defines = {"TRTSMITH_TENSORRT_INCLUDE": str(headers), **toolkit.cmake_defines()}
    defines |= {name: env[name] for name in SETTINGS if env.get(name)}
    return defines


def expectation(cmake: Path, env: Mapping[str, str]) -> str:
    """A note on a full build: the GPUs, and about how long it takes on this machine."""
    script = [str(cmake), "-P", str(SOURCES / "cmake" / "CudaArchitectures.cmake")]
    said = subprocess.run(script, env=dict(env), capture_output=True, text=True, check=False).stdout
    found = sorted({int(entry) for entry in re.findall(r"(\d+)a?-(?:real|virtual)", said)})
    minutes = max(LEAST_MINUTES, CORE_MINUTES * max(1, len(found)) // jobs(env))
    gpus = ", ".join(map(str, found)) or "those of TRTSMITH_CUDA_ARCHITECTURES"
    return f"compiling CUDA kernels for compute capability {gpus}, {jobs(env)} at a time: about {minutes} minutes"


def build(
    tools: Tools,
    env: Mapping[str, str],
    stamps: Stamps,
    log_dir: Path,
    *,
    warnings_are_errors: bool,
    folder: Path = BUILD,
    prefix: Path = ROOT,
) -> None:
    """Brings prefix's converter/lib up to date; does nothing if sources, tools, settings and libraries are unchanged.

    warnings_are_errors: for who works on the sources. Another compiler's warnings must not end an installation.
    """
    libraries = prefix / LIBRARY_DIR.relative_to(ROOT)
    chosen = f"{nvcc.identity(tools.toolkit, env)} {host_compiler(env)}"
    compiler = digest([chosen, *source_files(SOURCES / "cmake")])
    settings = [env.get(name, "") for name in (*SETTINGS, "CMAKE_ARGS", "CXXFLAGS", "CUDAFLAGS")]
    version = tools.headers / "NvInferVersion.h"
    sources = [file for part in (SOURCES, *DEFINITIONS) for file in source_files(part)]
    inputs = digest([*sources, compiler, *settings, str(tools.headers), version])
    if stamps.fresh("native", inputs) and all((libraries / name).is_file() for name in LIBRARIES):
        return
    require_host_compiler(env)
    if not stamps.fresh("native compiler", compiler):
        shutil.rmtree(folder, ignore_errors=True)  # CMake keeps the first compiler and flags that it saw
        say(expectation(tools.cmake, env))
    full = {**env, **tools.toolkit.environment(env)}
    defines = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_COMPILE_WARNING_AS_ERROR": "ON" if warnings_are_errors else "OFF",
        "CMAKE_MAKE_PROGRAM": str(tools.ninja),
        "Python_EXECUTABLE": str(tools.python),
        **cmake_defines(tools.toolkit, tools.headers, env),
    }
    configure = [str(tools.cmake), "-G", "Ninja", "-S", str(SOURCES), "-B", str(folder)]
    # What CMake found in an earlier run must not outlive the setting that it came from; nor SKBUILD, which `make wheel` sets
    # in this folder, and which would install a wheel's sources into the checkout.
    configure += [f"-U{name}" for name in (*SETTINGS, "SKBUILD")]
    configure += [f"-D{name}={value}" for name, value in defines.items()]
    configure += shlex.split(env.get("CMAKE_ARGS", ""))
    run_logged("configuring the C++ libraries", configure, log_dir / "cmake-configure.log", full)
    stamps.mark("native compiler", compiler)
    compile_ = [str(tools.cmake), "--build", str(folder), "--parallel", str(jobs(env))]
    run_logged("compiling the C++ libraries", compile_, log_dir / "cmake-build.log", full)
    install = [str(tools.cmake), "--install", str(folder), "--prefix", str(prefix)]
    run_logged("installing the C++ libraries", install, log_dir / "cmake-install.log", full)
    missing = [name for name in LIBRARIES if not (libraries / name).is_file()]
    if missing:
        raise setup_error(
            f"The build did not install {', '.join(missing)}.",
            str(libraries),
            "all of " + ", ".join(LIBRARIES),
            "check the install() rules of plugins_cpp/CMakeLists.txt",
        )
    stamps.mark("native", inputs)

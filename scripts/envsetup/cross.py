"""Describes cross builds on x86_64 for aarch64: CUDA versions, their GPUs, and the compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from envsetup import ROOT
from envsetup.aarch64_packages import CACHE, PREFIX, fetched
from envsetup.native import LIBRARY_DIR
from envsetup.steps import setup_error
from trtsmith.converter.base.options.gpu_names import OLD_JETSONS
from trtsmith.converter.compile import nvcc

FOLDER = ROOT / "build" / "aarch64"
PLATFORM_TAG = "manylinux_2_31_aarch64"
"""Of the wheel: the C library of the compiler's Debian. scripts/check_aarch64.py compares it with what is linked."""

ARCHITECTURES = {"cuda12": ("87",), "cuda13": ("87", "90", "100", "110", "121")}
"""A static CUDA runtime needs a driver of its major version: JetPack 6 has CUDA 12, JetPack 7 and new servers CUDA 13."""


def platform_asked(env: Mapping[str, str]) -> str | None:
    """TRTSMITH_PLATFORM, if it is not this machine's. Raises SetupError for an unsupported platform."""
    name, given = env.get("TRTSMITH_PLATFORM", ""), env.get("TRTSMITH_CUDA_ARCHITECTURES", "")
    asked = [f"sm{sm}" for sm in re.findall(r"\d+", given)]
    old = [OLD_JETSONS[sm] for sm in asked if name and sm in OLD_JETSONS]
    if old or "xavier" in name.lower():
        raise setup_error(
            f"Jetson {old[0] if old else 'Xavier'} cannot be built for: its last JetPack has TensorRT 8.5 at most.",
            f"TRTSMITH_PLATFORM={name} TRTSMITH_CUDA_ARCHITECTURES={given}",
            "Jetson Orin (87) or newer: JetPack 6 brings TensorRT 10.3, the oldest with the plugins' interface",
            "leave it out",
        )
    if name not in ("", "x86_64", "aarch64"):
        raise setup_error(
            f"There is no platform {name}.",
            f"TRTSMITH_PLATFORM={name}",
            "aarch64 (Jetson Orin and Thor, DGX Spark, servers), or x86_64, which this machine is",
            "make wheel PLATFORM=aarch64",
        )
    return name if name == "aarch64" else None


def architectures(env: Mapping[str, str], build: str) -> str:
    """The GPUs of a build: TRTSMITH_CUDA_ARCHITECTURES or its own; for CUDA 12 the intersection, maybe empty."""
    asked = re.findall(r"\d+", env.get("TRTSMITH_CUDA_ARCHITECTURES", "")) or ARCHITECTURES[build]
    return ";".join(sm for sm in asked if build == "cuda13" or sm in ARCHITECTURES[build])


def toolkit(build: str) -> nvcc.Toolkit:
    """The toolkit with nvcc for x86_64 and the runtime for aarch64, in the folder of packages."""
    folder = fetched(build)
    found = nvcc.inspect(folder / ("nvidia/cu13" if build == "cuda13" else "") / "bin" / "nvcc")
    if found is None:
        raise setup_error(
            f"nvcc in {folder} does not run.",
            str(folder),
            "the CUDA compiler for x86_64",
            f"delete {folder}, and it is fetched anew",
        )
    return found


def environment(env: Mapping[str, str], build: str) -> dict[str, str]:
    """env, with settings that make CMake and nvcc compile one of ARCHITECTURES' builds for aarch64."""
    tools, libraries = fetched("compiler") / "tools", toolkit(build).root / "lib"
    compiler = str(tools / f"{PREFIX}g++")
    defines = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_LIBRARY_PATH": CACHE / "compiler/usr/aarch64-linux-gnu/lib",
        "CUDA_CUDART": libraries / "libcudart_static.a",  # FindCUDAToolkit wants any runtime here
        "TRTSMITH_OLDER_LIBRARIES": older_libraries() if build == "cuda13" else "",
    }
    words = [env.get("CMAKE_ARGS", ""), *(f"-D{name}={value}" for name, value in defines.items())]
    return {
        **env,
        "CXX": compiler,
        "CUDAHOSTCXX": compiler,
        "CMAKE_ARGS": " ".join(filter(None, words)),
        "TRTSMITH_CUDA_ARCHITECTURES": architectures(env, build),
        "_PYTHON_HOST_PLATFORM": PLATFORM_TAG,
    }


def older_libraries() -> Path:
    """The install folder of the CUDA 12 build's libraries."""
    return FOLDER / LIBRARY_DIR.relative_to(ROOT)

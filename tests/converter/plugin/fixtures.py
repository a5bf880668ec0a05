"""Builds the plugin libraries of tests/plugins_cpp/fixtures, and the plugin host if it is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trtsmith.converter.engine import libraries
from trtsmith.converter.plugin.contract import ContractCase, GpuCase
from trtsmith.converter.plugin.host.plugin_values import TensorDesc

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests" / "plugins_cpp" / "fixtures"
HEADERS_VARIABLE = "TRTSMITH_TENSORRT_INCLUDE"
REPEAT_TYPES = frozenset({("float32", "float32"), ("float16", "float16")})


def tensorrt_include() -> Path:
    """The folder of NvInfer.h. Without headers nothing here can be tested, and that is a failure."""
    folder = os.environ.get(HEADERS_VARIABLE, "")
    assert folder, f"set {HEADERS_VARIABLE} to the folder of TensorRT 10's NvInfer.h ('make test' does)"
    assert Path(folder, "NvInfer.h").is_file(), f"{HEADERS_VARIABLE}={folder} has no NvInfer.h"
    return Path(folder)


@functools.cache
def cuda_root() -> Path:
    """The folder with CUDA's include and libraries: nvcc's, else that of the CUDA wheels."""
    roots = []
    nvcc = shutil.which("nvcc")
    if nvcc:
        shown = subprocess.run(
            [nvcc, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True
        ).stderr
        roots += [Path(line.split("TOP=", 1)[1].strip()) for line in shown.splitlines() if "TOP=" in line]
    roots += [Path(sysconfig.get_paths()["purelib"], "nvidia", "cu13"), Path("/usr/local/cuda")]
    for root in roots:
        if (root / "include" / "cuda_runtime_api.h").is_file():
            return root.resolve()
    raise AssertionError("cuda_runtime_api.h not found: put nvcc on PATH, or pip install nvidia-cuda-runtime")


def cudart() -> Path:
    """libcudart_static.a."""
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        path = cuda_root() / folder / "libcudart_static.a"
        if path.is_file():
            return path
    raise AssertionError(f"libcudart_static.a not found below {cuda_root()}")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="plugin-fixtures-")


@functools.cache
def library(name: str) -> Path:
    """The compiled library of SOURCES/<name>.cpp, once a test run."""
    return _shared(name, [SOURCES / f"{name}.cpp"], [str(cudart()), "-ldl", "-lrt", "-lpthread"])


def _shared(name: str, sources: Sequence[Path], libraries: Sequence[str]) -> Path:
    target = Path(_folder().name) / f"lib{name}.so"
    compiler = os.environ.get("CXX", "g++")
    includes = [f"-isystem{tensorrt_include()}", f"-isystem{cuda_root() / 'include'}"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations"]
    command = [compiler, "-std=c++17", "-O0", "-shared", "-fPIC", *warnings, *includes]
    done = subprocess.run(
        [*command, *map(str, sources), *libraries, "-o", str(target)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return target


@functools.cache
def _fake_cuda() -> Path:
    """CUDA's runtime on the memory of the host, for both sides of a test without a GPU."""
    return _shared("fake_cuda", [SOURCES / "fake_cuda.cpp"], [])


@functools.cache
def on_fake_cuda(name: str) -> Path:
    """library(name), linked with a runtime that needs no GPU."""
    return _shared(f"{name}_fake", [SOURCES / f"{name}.cpp"], [str(_fake_cuda())])


@functools.cache
def host_on_fake_cuda() -> Path:
    """The plugin host, linked with a runtime that needs no GPU."""
    sources = sorted((ROOT / "plugins_cpp" / "host").glob("*.cpp"))
    return _shared("trtsmith_host_fake", sources, [str(_fake_cuda())])


def host() -> Path:
    """The plugin host that is built with the package."""
    return libraries.library("trtsmith_host")


@functools.cache
def faults(header: str, enum: str) -> dict[str, str]:
    """The number of each fault, as the enum in SOURCES/<header> has it: kNone is 0."""
    text = (SOURCES / header).read_text()
    found = re.search(rf"enum class {enum}\s*\{{(.*?)\}}", text, re.DOTALL)
    assert found, f"no enum {enum} in {header}"
    return {name: str(i) for i, name in enumerate(re.findall(r"k[A-Z]\w*", found.group(1)))}


def repeat_case(plugin: str, dtype: str = "float32", name: str = "small") -> ContractCase:
    """y is x three times along its first axis, or along its second for interfaces without a batch in shapes."""
    implicit = plugin in ("RepeatIOExt", "RepeatExt")
    return ContractCase(
        plugin=plugin,
        name=name,
        fields={"repeats": 3, "weights": (1.0, 2.0)},
        inputs=(TensorDesc(dtype, (2, 3, 4)),),
        outputs=(TensorDesc(dtype, (2, 9, 4) if implicit else (6, 3, 4)),),
        accepted=frozenset({("float32", "float32")}) if plugin == "RepeatExt" else REPEAT_TYPES,
    )


def repeat_gpu_case(plugin: str, dtype: str = "float32", batch: int = 2, inputs: int = 1) -> GpuCase:
    """The kernel's case. inputs: as many of one shape, of which the plugin reads the first."""
    # In memory column by column, as an operator's cases may come from linear algebra.
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((batch, 3, 4)).astype(dtype))
    axis = 1 if plugin in ("RepeatIOExt", "RepeatExt") else 0
    y = np.concatenate([x, x, x], axis=axis).astype(np.float64)
    return GpuCase(
        plugin,
        f"{inputs} of batch {batch}, {dtype}",
        {"repeats": 3, "weights": (1.0, 2.0)},
        (x,) * inputs,
        (y,),
        (1e-6,),
    )

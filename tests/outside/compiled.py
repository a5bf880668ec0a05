"""Compiles the plugins of tests/outside/mixing.py, which have no kernels, with g++ alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.converter.plugin.fixtures import cuda_root, cudart, tensorrt_include

HERE = Path(__file__).parent
PLUGINS_CPP = HERE.parents[1] / "plugins_cpp"


def compile_mixing(
    folder: Path, names: str = "ChannelMixing LogOdds", *, v2: bool = False, edits: str = ""
) -> Path:
    """The library in a folder, with these operators. edits: a sed script for the bindings."""
    folder.mkdir(parents=True, exist_ok=True)
    generated = folder / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    listed = " ".join(f"X({name})" for name in names.split())
    (generated / "operators.hpp").write_text(f"#pragma once\n#define TRTSMITH_OPERATORS(X) {listed}\n")
    bindings = folder / "generated" / "bindings.cpp"
    text = (HERE / "bindings.cpp").read_text(encoding="utf-8")
    bindings.write_text(
        subprocess.run(["sed", "-e", edits], input=text, capture_output=True, text=True, check=True).stdout
    )
    target = folder / f"libmixing_plugins{'_v2' * v2}.so"
    headers = (tensorrt_include(), cuda_root() / "include")
    includes = [f"-I{PLUGINS_CPP}", f"-I{generated}", *(f"-isystem{path}" for path in headers)]
    options = [
        "-std=c++20",
        "-O0",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        "-Wall",
        "-Wno-deprecated-declarations",
    ]
    options += ['-DTRTSMITH_CUDA_ARCHITECTURES="86-real"', *(["-DTRTSMITH_PLUGIN_V2"] if v2 else [])]
    parts = [PLUGINS_CPP / ("library_v2.cpp" if v2 else "library.cpp"), bindings, cudart()]
    command = [
        os.environ.get("CXX", "g++"),
        *options,
        *includes,
        *parts,
        "-ldl",
        "-lrt",
        "-lpthread",
        "-o",
        target,
    ]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return target

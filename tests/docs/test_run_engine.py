"""The C++ programs of the guide on deployment compile against TensorRT's headers, without a warning."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.converter.plugin.fixtures import ROOT, cuda_root, tensorrt_include
from tests.docs.blocks import files_of

CALLS = {
    "run_engine.cpp": (
        "loadLibrary(", "deserializeCudaEngine(", "setOutputAllocator(", "setTensorAddress(", "enqueueV3(",
    ),
    "register_plugins.cpp": ("getPluginRegistry()->loadLibrary(",),
}  # fmt: skip
"""By file, what the page promises of it."""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
@pytest.mark.parametrize("name", CALLS)
def test_the_program_compiles(name: str, tmp_path: Path) -> None:
    program = files_of(ROOT / "docs/guides/deploy.md")[name]
    assert all(call in program for call in CALLS[name])
    (tmp_path / name).write_text(program, encoding="utf-8")
    headers = [f"-isystem{folder}" for folder in (tensorrt_include(), cuda_root() / "include")]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", *headers, "-c", name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr

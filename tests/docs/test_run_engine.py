"""The program of the guide on deployment that runs an engine in C++ compiles against TensorRT's headers, without a warning."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.converter.plugin.fixtures import ROOT, cuda_root, tensorrt_include
from tests.docs.blocks import files_of

CALLS = ("loadLibrary(", "deserializeCudaEngine(", "setOutputAllocator(", "setTensorAddress(", "enqueueV3(")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_program_compiles(tmp_path: Path) -> None:
    program = files_of(ROOT / "docs/guides/deploy.md")["run_engine.cpp"]
    assert all(call in program for call in CALLS)
    (tmp_path / "run_engine.cpp").write_text(program, encoding="utf-8")
    headers = [f"-isystem{folder}" for folder in (tensorrt_include(), cuda_root() / "include")]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *headers, "-c", "run_engine.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr

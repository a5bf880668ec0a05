"""Parts of plugins_cpp without a GPU or a library, each compiled with a test program and run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.converter.plugin.fixtures import ROOT, cuda_root, cudart, tensorrt_include

SOURCES = ROOT / "plugins_cpp"
TESTS = ROOT / "tests" / "plugins_cpp"
EXPRESSIONS = ("host/expr.cpp", "host/error.cpp")


def compile_and_run(
    tmp_path: Path, test: str, sources: tuple[str, ...], includes: list[Path], *, runtime: bool = True
) -> None:
    """A test program prints what is wrong, and nothing where all is well. runtime: CUDA's, or one of the program's own."""
    program = tmp_path / "program"
    folders = [f"-I{TESTS}", f"-I{SOURCES}", *(f"-isystem{folder}" for folder in includes)]
    checks = ["-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-fsanitize=undefined"]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", *checks, *folders, str(TESTS / test)]
    command += [str(SOURCES / source) for source in sources]
    libraries = [str(cudart()), "-ldl", "-lrt", "-lpthread"] if includes and runtime else []
    built = subprocess.run([*command, *libraries, "-o", str(program)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("test", ["core/dims_test.cpp", "core/fields_test.cpp", "core/signature_test.cpp"])
def test_core_with_a_compiler_alone(tmp_path: Path, test: str) -> None:
    compile_and_run(tmp_path, test, (), [])


@pytest.mark.parametrize("test", ["host/expr_test.cpp", "trt/rules_test.cpp"])
def test_with_the_headers_of_tensorrt(tmp_path: Path, test: str) -> None:
    compile_and_run(tmp_path, test, EXPRESSIONS, [tensorrt_include(), cuda_root() / "include"])


def test_launches_on_a_driver_of_the_tests_own(tmp_path: Path) -> None:
    compile_and_run(tmp_path, "triton/launch_test.cpp", (), [cuda_root() / "include"], runtime=False)

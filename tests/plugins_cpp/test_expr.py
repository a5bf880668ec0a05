"""The host's dimension expressions, compiled and run on their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.converter.plugin.fixtures import ROOT, cuda_root, tensorrt_include


def test_dimension_expressions(tmp_path: Path) -> None:
    host = ROOT / "plugins_cpp" / "host"
    program = tmp_path / "expr_test"
    sources = [
        ROOT / "tests" / "plugins_cpp" / "host" / "expr_test.cpp",
        host / "expr.cpp",
        host / "error.cpp",
    ]
    includes = [f"-I{host}", f"-isystem{tensorrt_include()}", f"-isystem{cuda_root() / 'include'}"]
    checks = ["-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-fsanitize=undefined"]
    command = [os.environ.get("CXX", "g++"), "-std=c++17", *checks, *includes, *map(str, sources)]
    built = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")

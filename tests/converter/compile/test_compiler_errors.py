"""Errors of nvcc, g++, the linker and CMake are recognised with their places."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from trtsmith.converter.compile.compiler_errors import LONGEST, errors_of

LOGS = {
    'kernels/k.cu(3): error: identifier "flot" is undefined': (
        "kernels/k.cu:3",
        'identifier "flot" is undefined',
    ),
    "kernels/k.cu(3): error #20014-D: calling a host function": ("kernels/k.cu:3", "calling a host function"),
    'kernels/k.cu(3): catastrophic error: cannot open source file "x.h"': (
        "kernels/k.cu:3",
        'cannot open source file "x.h"',
    ),
    "ops/b.cpp:2:14: error: ‘f’ was not declared in this scope": (
        "ops/b.cpp:2",
        "‘f’ was not declared in this scope",
    ),
    "ops/b.cpp:2:10: fatal error: gone.hpp: No such file or directory": (
        "ops/b.cpp:2",
        "gone.hpp: No such file or directory",
    ),
    "b.cpp:(.text._ZN1[_ZN2]+0xed8): undefined reference to `f()'": ("b.cpp", "undefined reference to `f()'"),
    "/usr/bin/ld: cannot find -lnothing: No such file": ("", "cannot find -lnothing: No such file"),
    "nvcc fatal   : Unsupported gpu architecture 'compute_33'": (
        "",
        "Unsupported gpu architecture 'compute_33'",
    ),
    "ptxas error   : Entry function 'k' uses too much shared data": (
        "",
        "Entry function 'k' uses too much shared data",
    ),
}


@pytest.mark.parametrize("line", LOGS)
def test_one_line(line: str, tmp_path: Path) -> None:
    (error,) = errors_of(f"[1/5] Building\n{line}\nninja: build stopped\n", tmp_path)
    assert (error.place, error.text) == LOGS[line]


def test_the_source_line_is_shown_and_files_are_named_from_the_package(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "k.cu").write_text("one\n  two = flot;\n")
    line = f'{tmp_path}/kernels/k.cu(2): error: identifier "flot" is undefined'
    (error,) = errors_of(f"{line}\n{line}\n", tmp_path)
    assert str(error) == 'kernels/k.cu:2: identifier "flot" is undefined\n     2 | two = flot;'


SHAPE = """#include "core/dims.hpp"
struct Symbol {};
struct Op {
    template <typename D>
    static trtsmith::Shape<D> shape(const trtsmith::Shape<D>& in) {
        return trtsmith::Shape<D>::of(in[0], 4);
    }
};
trtsmith::Shape<Symbol> f(const trtsmith::Shape<Symbol>& s) { return Op::shape(s); }
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_an_error_in_a_header_of_ours_is_at_the_line_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "x.cpp").write_text(SHAPE)
    include = Path(__file__).parents[3] / "plugins_cpp"
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{include}", str(tmp_path / "ops" / "x.cpp")]
    log = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stderr
    first, *_ = errors_of(log, tmp_path)
    assert first.place == "ops/x.cpp:6" and "of(in[0], 4)" in first.source
    assert "write a number as constantLike(dimension, number)" in first.text


def test_cmake_is_read_with_the_users_own_line(tmp_path: Path) -> None:
    (tmp_path / "plugins.cmake").write_text("# one\ntrtsmith_operator(X)\n")
    log = f"""CMake Error at /sdk/cmake/Operators.cmake:21 (message):
  plugins.cmake does not say what X is made of.

    where:    trtsmith_operator(X )
    expected: more
Call Stack (most recent call first):
  {tmp_path}/plugins.cmake:2 (trtsmith_operator)
  /sdk/cmake/Operators.cmake:44 (include)
  CMakeLists.txt:15 (include)


-- Configuring incomplete, errors occurred!
"""
    (error,) = errors_of(log, tmp_path)
    assert (error.place, error.source) == ("plugins.cmake:2", "trtsmith_operator(X)")
    assert error.text == "plugins.cmake does not say what X is made of."


def test_a_message_is_not_endless(tmp_path: Path) -> None:
    (error,) = errors_of(f"a.cpp:1:1: error: {'x' * 9999}\n", tmp_path)
    assert len(error.text) == LONGEST


def test_what_is_no_error_is_none(tmp_path: Path) -> None:
    assert errors_of("-- Found Threads: TRUE\na.cpp:1:1: warning: error: no\nnote: a.cu(3)\n", tmp_path) == ()

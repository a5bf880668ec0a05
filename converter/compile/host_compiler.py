"""Finds the C++ compiler that CMake and nvcc would take, and limits how many run at a time."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from trtsmith.converter.compile.logged import SetupError


def jobs(env: Mapping[str, str]) -> int:
    """Returns the number of compile jobs: TRTSMITH_JOBS, else the cores that this process may use (in a container,
    not all).
    """
    asked = env.get("TRTSMITH_JOBS", "")
    return max(1, int(asked)) if asked.isdigit() else len(os.sched_getaffinity(0))


def host_compiler(env: Mapping[str, str]) -> str | None:
    """Returns the C++ compiler that CMake and nvcc would take, or None."""
    asked = env.get("CXX")
    names = [shlex.split(asked)[0]] if asked else ["c++", "g++"]
    return next((found for name in names if (found := shutil.which(name, path=env.get("PATH", "")))), None)


def require_host_compiler(env: Mapping[str, str]) -> None:
    if host_compiler(env) is None:
        raise SetupError(
            "There is no C++ compiler.",
            f"CXX={env['CXX']}" if env.get("CXX") else "PATH",
            "g++ 9 or newer (nvcc compiles host code with it)",
            "install it (Debian and Ubuntu: apt install g++ make), or set CXX to one",
        )

#!/usr/bin/env python3
"""Makes a bare checkout usable, then runs a command in it: setup_env.py [--python-only] [-- COMMAND ...].

Makes .venv from scripts/requirements.lock, finds or fetches nvcc and TensorRT's headers, builds the C++ libraries into
converter/lib and installs this checkout in editable form. Each step is skipped when its inputs are as they were.
Run by any Python; needs nothing but the standard library, make and g++. Exit code 2 if a step cannot go on.
Settings: TRTSMITH_CUDA (`pypi` or a toolkit's folder), TRTSMITH_CUDA_ARCHITECTURES, TRTSMITH_TENSORRT_INCLUDE,
TRTSMITH_LEAVE_OUT, TRTSMITH_JOBS, CXX, and pip's own. With TRTSMITH_PLATFORM=aarch64 no libraries are built: those for
this machine are not wanted then, and the wheel's build makes the others.
"""

import sys

if sys.version_info < (3, 10):
    sys.stderr.write(
        "Python {}.{} cannot run trtsmith.\n"
        "  where:    {}\n"
        "  expected: Python 3.10 or newer\n"
        "  fix:      name one that is installed: make PYTHON=python3.12 ...\n".format(
            sys.version_info[0], sys.version_info[1], sys.executable
        )
    )
    sys.exit(2)

import argparse
import fcntl
import os
import shutil
import subprocess

from envsetup import ROOT, cross, native
from envsetup.steps import Stamps, digest, setup_error, source_files
from trtsmith.converter.compile import headers, nvcc
from trtsmith.converter.compile.host_compiler import require_host_compiler
from trtsmith.converter.compile.logged import SetupError, run_logged, say

VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
LOGS = CACHE / "logs"
LOCK = ROOT / "scripts" / "requirements.lock"
FREE_GB = 6  # .venv with torch and TensorRT-RTX, downloads while they are unpacked, and the build


def main(argv: list[str]) -> int:
    own, command = _split(argv)
    parser = argparse.ArgumentParser(
        prog="setup_env.py", description="Set this checkout up; then run COMMAND in it."
    )
    parser.add_argument("--python-only", action="store_true", help="no C++ libraries: enough for the linters")
    options = parser.parse_args(own)
    try:
        another = cross.platform_asked(os.environ) is not None
        with _OneAtATime():
            env = prepare(dict(os.environ), python_only=options.python_only or another)
    except SetupError as error:
        if error.tail:
            print(error.tail, file=sys.stderr)
        print(error, file=sys.stderr)
        return 2
    if command:
        sys.stdout.flush()
        os.chdir(ROOT)
        program = shutil.which(command[0], path=env["PATH"]) or command[0]
        os.execve(program, command, env)
    return 0


def prepare(env: dict[str, str], *, python_only: bool) -> dict[str, str]:
    """Runs the steps. Returns the environment for commands of this checkout."""
    for name in ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__"):
        env.pop(name, None)
    if not python_only:
        require_host_compiler(env)  # before minutes of downloads, not after
    stamps = Stamps(VENV / "trtsmith-stamps.json")
    _make_venv(stamps)
    _install_lock(stamps, env)
    env = {**env, "VIRTUAL_ENV": str(VENV), "PATH": f"{VENV / 'bin'}{os.pathsep}{env.get('PATH', '')}"}
    if not python_only:
        toolkit = _toolkit(stamps, env)
        include = headers.find(env, CACHE) or headers.fetch(CACHE, _pip(), LOGS / "headers.log")
        programs = VENV / "bin"
        tools = native.Tools(toolkit, include, programs / "cmake", programs / "ninja", programs / "python")
        native.build(tools, env, Stamps(native.STAMPS), LOGS, warnings_are_errors=True)
        env = {**env, **toolkit.environment(env), "TRTSMITH_TENSORRT_INCLUDE": str(include)}
        _install_checkout(stamps, env)
    return env


def _make_venv(stamps: Stamps) -> None:
    inputs = digest([sys.version, sys.base_prefix, str(VENV)])
    if (VENV / "bin" / "python").exists() and stamps.fresh("venv", inputs):
        return
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < FREE_GB:
        raise setup_error(
            f"There are {free:.1f} GB of free disk.",
            str(ROOT),
            f"{FREE_GB} GB: the virtual environment, the C++ build and pip's downloads",
            "free some space, or clone to a disk that has it",
        )
    if subprocess.run(
        [sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False
    ).returncode:
        minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise setup_error(
            "This Python cannot make virtual environments.",
            sys.executable,
            "the standard modules venv and ensurepip",
            f"install them (Debian and Ubuntu: apt install python{minor}-venv), or name another: make PYTHON=...",
        )
    shutil.rmtree(VENV, ignore_errors=True)
    run_logged("making .venv", [sys.executable, "-m", "venv", str(VENV)], LOGS / "venv.log")
    stamps.mark("venv", inputs)


def _install_lock(stamps: Stamps, env: dict[str, str]) -> None:
    inputs = digest([LOCK])
    if not stamps.fresh("lock", inputs):
        argv = [*_pip(), "install", "-r", str(LOCK)]
        run_logged("installing the pinned Python packages", argv, LOGS / "pip.log", env)
        stamps.mark("lock", inputs)


def _toolkit(stamps: Stamps, env: dict[str, str]) -> nvcc.Toolkit:
    """The machine's nvcc, else PyPI's, installed into .venv if it is missing."""
    for attempt in range(2):
        found = nvcc.find(env, nvcc.site_packages_of(VENV), stamps.marked("nvcc"))
        if found is not None:
            stamps.mark("nvcc", nvcc.identity(found, env))
            return found
        if attempt == 0:
            argv = [*_pip(), "install", *nvcc.WHEELS]
            run_logged(
                "no CUDA compiler on this machine: installing PyPI's into .venv", argv, LOGS / "nvcc.log", env
            )
    raise setup_error(
        "PyPI's CUDA compiler is installed, but does not compile.",
        str(VENV),
        "nvcc to compile and link one kernel with this machine's C++ compiler",
        "read the line above; if it names the host compiler, set CXX to a g++ of version 9 to 15",
    )


def _install_checkout(stamps: Stamps, env: dict[str, str]) -> None:
    """Installs the command `trtsmith` and the packages' metadata; the sources are used in place."""
    scripts = ROOT / "scripts"
    steps = (*source_files(scripts / "envsetup"), *source_files(ROOT / "converter" / "compile"))
    inputs = digest([ROOT / "pyproject.toml", scripts / "build_backend.py", *steps])
    if not stamps.fresh("checkout", inputs) or not (VENV / "bin" / "trtsmith").exists():
        argv = [*_pip(), "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        run_logged("installing this checkout", argv, LOGS / "checkout.log", env)
        stamps.mark("checkout", inputs)


def _pip() -> list[str]:
    return [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, and those after it."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


class _OneAtATime:
    """A lock: two set-ups of one checkout would delete each other's files, so the second waits."""

    def __enter__(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self._file = (CACHE / "setup.lock").open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of this checkout is running: waiting for it ...")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

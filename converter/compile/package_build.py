"""Compiles the operators of a user's package into one plugin library inside it, with CMake and Ninja."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.compile.build_tools import BuildTools, find_tools
from trtsmith.converter.compile.compiler_errors import SHOWN, CompilerError, errors_of
from trtsmith.converter.compile.host_compiler import host_compiler, jobs
from trtsmith.converter.compile.logged import Say, SetupError, explain_failure, run_into
from trtsmith.converter.compile.package_folder import PackageFolder
from trtsmith.converter.compile.sdk import BUILD, sdk_folder
from trtsmith.converter.compile.triton_kernels.kernel_build import build_triton_kernels

_ARCHITECTURE = re.compile(r"(?:sm_?)?[0-9]{2,3}a?")
_ENVIRONMENT = re.compile(
    r"no space left on device|killed|cannot allocate memory|unsupported gnu version|unsupported gpu architecture|"
    r"could not find compiler|is not able to compile a simple test program|or higher is required",
    re.IGNORECASE,
)
"""What a log says when not the package's sources are at fault, but the machine."""


@dataclass(frozen=True)
class BuildOrder:
    """The parts of a package to compile.

    v2: the IPluginV2DynamicExt library, too; one that is there already is brought up to date in any case.
    architectures: "86,90", "release", or "" for TRTSMITH_CUDA_ARCHITECTURES and else those of our own libraries.
    clean: whether to compile everything anew.
    """

    package: PackageFolder
    v2: bool = False
    architectures: str = ""
    clean: bool = False


@dataclass(frozen=True)
class BuiltPackage:
    """A compiled package. libraries: their paths, the V3 one first; empty if there is nothing to compile. log: of the
    compilers.
    """

    libraries: tuple[Path, ...]
    log: Path
    seconds: float


Accept = Callable[[Path], None]
"""Looks at a library before it is put into the package; raises what is wrong with it."""


def check_architectures(text: str) -> None:
    """Raises SetupError unless it is a list of compute capabilities without a point, or `release`."""
    wrong = [part for part in re.split(r"[,; ]+", text) if part and not _ARCHITECTURE.fullmatch(part)]
    if text and text != "release" and (wrong or not text.strip(",; ")):
        raise SetupError(
            f"{(wrong or [text])[0]!r} is not a CUDA architecture",
            f"--architectures {text}",
            "compute capabilities without a point, separated by commas, or release",
            "--architectures 86,90",
        )


def build_package(order: BuildOrder, env: Mapping[str, str], accept: Accept, say: Say) -> BuiltPackage:
    """Compiles changes, lets `accept` check the result, and puts it into the package's lib/, completely or not at all.

    Raises SetupError, of exit code 2, where something is missing on this machine, and ConversionError, of exit code 1,
    where the package does not compile.
    """
    start = time.monotonic()
    package = order.package
    check_architectures(order.architectures)
    log = package.build / "build.log"
    if not package.operators():
        return BuiltPackage((), log, 0.0)
    package.require_sources()
    if order.clean:
        for folder in (package.build, package.triton):
            shutil.rmtree(folder, ignore_errors=True)
    _make_folder(package.build)
    tools = find_tools(env, package.build, package.build / "nvcc.txt", say)
    build_triton_kernels(package, env, order.architectures, tools.toolkit.version[0], say)
    v2 = order.v2 or package.library(v2=True).is_file()
    _compile(order, tools, env, log, say, v2=v2)
    made = [(_made(package, one), package.library(v2=one)) for one in ((False, True) if v2 else (False,))]
    for path, _ in made:
        accept(path)
    _make_folder(package.lib)
    for path, target in made:
        install(path, target)
    return BuiltPackage(tuple(target for _, target in made), log, time.monotonic() - start)


def install(path: Path, target: Path) -> None:
    """Makes a copy at `target`, completely or not at all: processes that have the old one open keep it."""
    try:
        if target.is_file() and target.read_bytes() == path.read_bytes():
            return
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".trtsmith-") as folder:
            copy = Path(folder) / target.name
            shutil.copyfile(path, copy)
            copy.replace(target)
    except OSError as error:
        raise _not_writable(target, error) from error


def _made(package: PackageFolder, v2: bool) -> Path:
    return package.build / package.library(v2=v2).name


def _compile(
    order: BuildOrder, tools: BuildTools, env: Mapping[str, str], log: Path, say: Say, *, v2: bool
) -> None:
    package = order.package
    full = {**env, **tools.toolkit.environment(env)}
    full.pop("TRTSMITH_CUDA_ARCHITECTURES", None)
    defines = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": str(tools.ninja),
        "TRTSMITH_PACKAGE": str(package.root),
        "TRTSMITH_LIBRARY": package.library_name,
        "TRTSMITH_TRITON": str(package.triton),
        "TRTSMITH_BUILD_V2": "ON" if v2 else "OFF",
        "TRTSMITH_TENSORRT_INCLUDE": str(tools.include),
        "TRTSMITH_CUDA_ARCHITECTURES": order.architectures or env.get("TRTSMITH_CUDA_ARCHITECTURES", ""),
        **tools.toolkit.cmake_defines(),
    }
    seen = f"{tools.toolkit.nvcc} {tools.toolkit.version} {host_compiler(env)} {sdk_folder()} {package.root}"
    _forget_another_compiler(package.build, seen)
    configure = [str(tools.cmake), "-G", "Ninja", "-S", str(sdk_folder() / BUILD), "-B", str(package.build)]
    configure += [f"-D{name}={value}" for name, value in defines.items()]
    configure += shlex.split(env.get("CMAKE_ARGS", ""))
    compile_ = [
        str(tools.cmake),
        "--build",
        str(package.build),
        "--parallel",
        str(jobs(env)),
        "--",
        "-k",
        "0",
    ]
    log.write_text("", encoding="utf-8")
    say(f"compiling {', '.join(package.operators())} with nvcc {'.'.join(map(str, tools.toolkit.version))}")
    for argv in (configure, compile_):
        _run(argv, log, full, package)


def _run(argv: Sequence[str], log: Path, env: Mapping[str, str], package: PackageFolder) -> None:
    code = run_into(log, argv, env)
    if code == 0:
        return
    text = log.read_text(encoding="utf-8", errors="replace")
    errors = errors_of(text, package.root)
    if not errors or _ENVIRONMENT.search(text):
        shown = str(errors[0]) if errors else "\n".join(text.splitlines()[-SHOWN:])
        problem = explain_failure("compiling the operators", code, text, log)
        raise SetupError(f"{problem.what}\n{shown}", problem.where, problem.expected, problem.fix)
    more = f"\n... and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    raise ConversionError(
        "the operators do not compile:\n" + "\n".join(str(error) for error in errors[:SHOWN]) + more,
        f"{package.root}; all that the compilers said is in {log}",
        "sources that compile",
        f"correct {_own_place(errors) or 'the sources of the operators'} and run trtsmith op build again",
    )


def _own_place(errors: Sequence[CompilerError]) -> str:
    """The first place in the package: what lies elsewhere is not its author's to correct."""
    return next((error.place for error in errors if error.file and not Path(error.file).is_absolute()), "")


def _forget_another_compiler(build: Path, identity: str) -> None:
    """CMake keeps the first compiler and folders that it saw: other ones start anew."""
    stamp = build / "compiler.txt"
    if (build / "CMakeCache.txt").is_file() and (
        not stamp.is_file() or stamp.read_text(encoding="utf-8", errors="replace") != identity
    ):
        for entry in build.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
        (build / "CMakeCache.txt").unlink(missing_ok=True)
    stamp.write_text(identity, encoding="utf-8")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise _not_writable(folder, error) from error


def _not_writable(path: Path, error: OSError) -> SetupError:
    return SetupError(
        f"the library cannot be written: {error.strerror}",
        str(path),
        "a folder that can be written, with room for the library",
        "make it writable, or work on a copy of the package",
    )

#!/usr/bin/env python3
"""Installs the wheel in a folder into a fresh environment and uses it there, outside of the checkout.

python3 scripts/check_wheel.py dist; with --gpus it names the GPUs that the wheel is for, and installs nothing. Exit code 1,
and what was wrong, if the wheel lacks something or has too much, or if the installed toolkit cannot load and judge its own
plugin library.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from envsetup.native import LIBRARIES, MOST_MIB
from envsetup.steps import setup_error
from trtsmith.converter.compile.logged import SetupError, run_logged, say
from trtsmith.converter.engine.libraries import manifest

TOP_LEVEL = {"trtsmith"}

# With these, and their like beside them, users' operators are compiled: plugins_cpp/cmake/Sdk.cmake puts them there.
SDK = tuple(
    f"trtsmith/plugins_cpp/{name}"
    for name in (
        *("core/fields.hpp", "trt/adapt.hpp", "trt/plugin_v2.hpp", "trt/plugin_v3.hpp", "ops/binding.hpp"),
        *("exports.hpp", "exports.map", "library.cpp", "library_v2.cpp", "package/CMakeLists.txt"),
        *(
            "cmake/toolchain.cmake",
            "cmake/PluginLibrary.cmake",
            "cmake/Operators.cmake",
            "cmake/operators.hpp.in",
        ),
        *("triton/checked.hpp", "triton/launch.hpp"),
        *("kernels/convert.cuh", "kernels/dispatch.cuh", "kernels/dtype.hpp"),
    )
)

# Every library must load where no CUDA is installed, with every symbol resolved.
LOAD = "import ctypes, os, sys; [ctypes.CDLL(path, os.RTLD_NOW) for path in sys.argv[1:]]"

# Every public name is there, and costs nothing before it is used.
USE = "import sys, trtsmith; assert 'numpy' not in sys.modules; [getattr(trtsmith, n) for n in trtsmith.__all__]"


def contents_problem(names: list[str]) -> str | None:
    """The problem in the wheel's list of files, or None."""
    folders = {name.split("/")[0] for name in names}
    extra = sorted(folder for folder in folders - TOP_LEVEL if not folder.endswith(".dist-info"))
    if extra:
        return f"it also has {', '.join(extra)}"
    wanted = [f"trtsmith/converter/lib/{library}" for library in LIBRARIES] + [
        "trtsmith/converter/cli/main.py",
        "trtsmith/importers/__init__.py",
        "trtsmith/api.py",
        "trtsmith/py.typed",
        "trtsmith/converter/base/options/keywords.pyi",
        "trtsmith/converter/convert/report.schema.json",
        "trtsmith/converter/verify/input_generation/pictures.npz",
        "trtsmith/converter/pages/assets/frame.js",
        "trtsmith/converter/samples/detector/detector.onnx",
        *SDK,
    ]
    missing = [name for name in wanted if names.count(name) != 1]
    if missing:
        return f"not exactly once in it: {', '.join(missing)}"
    if not any(name.endswith("LICENSE") for name in names):
        return "it has no licence"
    return None


def gpus_of(wheel: Path) -> str:
    """The compute capabilities of the wheel's kernels."""
    with tempfile.TemporaryDirectory(prefix="trtsmith-wheel-") as folder, zipfile.ZipFile(wheel) as archive:
        library = archive.extract(f"trtsmith/converter/lib/{LIBRARIES[0]}", folder)
        entries = manifest(Path(library))["cuda_architectures"].split()
    built = [entry.removesuffix("-real") for entry in entries if not entry.endswith("-virtual")]
    later = [entry.removesuffix("-virtual") for entry in entries if not entry.endswith("-real")]
    return f"compute capability {', '.join(built)}, and newer GPUs by PTX of {', '.join(later)}"


def check(wheel: Path) -> None:
    """Checks the wheel. Raises SetupError with the first problem."""
    with zipfile.ZipFile(wheel) as archive:
        wrong = contents_problem(archive.namelist())
    if wrong:
        raise setup_error(
            f"The wheel is wrong: {wrong}.",
            str(wheel),
            "trtsmith with its libraries, metadata and licence; nothing else",
            "check [tool.scikit-build] in pyproject.toml and install() in plugins_cpp/CMakeLists.txt",
        )
    with tempfile.TemporaryDirectory(prefix="trtsmith-wheel-") as folder:
        work = Path(folder)
        python, trtsmith = str(work / "venv/bin/python"), str(work / "venv/bin/trtsmith")
        run_logged(
            "making a fresh environment",
            [sys.executable, "-m", "venv", str(work / "venv")],
            work / "venv.log",
        )
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        run_logged("installing the wheel", [*pip, str(wheel.resolve())], work / "pip.log")
        site = next((work / "venv/lib").glob("python3.*/site-packages"))
        libraries = [str(site / "trtsmith/converter/lib" / name) for name in LIBRARIES]
        run_logged("loading its libraries", [python, "-I", "-c", LOAD, *libraries], work / "load.log")
        run_logged("the Python API", [python, "-I", "-c", USE], work / "api.log")
        for words in (
            ["--help"],
            ["ops"],
            ["plugin", "path"],
            ["plugin", "list", libraries[0]],
            ["plugin", "inspect", libraries[0]],
        ):
            run_logged(f"trtsmith {' '.join(words[:2])}", [trtsmith, *words], work / "run.log")
        first = f"cd {shlex.quote(folder)} && {trtsmith} sample detector && {trtsmith} check detector.onnx"
        run_logged("the README's first commands", ["bash", "-c", first], work / "run.log")
        where = subprocess.run(
            [trtsmith, "plugin", "path"], capture_output=True, text=True, check=True, cwd=work
        ).stdout
        if Path(where.strip()).resolve() != Path(libraries[0]).resolve():
            raise setup_error(
                "The installed toolkit uses another library.", where.strip(), libraries[0], "see above"
            )
    say(f"{wheel.name}: good, {wheel.stat().st_size / 1e6:.1f} MB")


def main(argv: list[str]) -> int:
    folder, only_gpus = Path(argv[0] if argv else "dist"), "--gpus" in argv
    wheels = sorted(folder.glob("trtsmith-*.whl"))
    try:
        if len(wheels) != 1:
            raise setup_error(
                f"There are {len(wheels)} wheels.", " ".join(argv) or "dist", "one", "make wheel"
            )
        size = wheels[0].stat().st_size / 2**20
        if size > MOST_MIB:
            what, fix = f"The wheel has {size:.1f} MiB.", "name fewer GPUs in TRTSMITH_CUDA_ARCHITECTURES"
            raise setup_error(what, str(wheels[0]), f"at most {MOST_MIB} MiB", fix)
        if only_gpus:
            print(f"{wheels[0]}: {wheels[0].stat().st_size / 1e6:.1f} MB, for {gpus_of(wheels[0])}")
        else:
            check(wheels[0])
    except SetupError as error:
        print(f"{error.tail}\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

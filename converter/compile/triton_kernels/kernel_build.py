"""Compiles the Triton kernels of a package, each in a child process, and writes the bindings that CMake then compiles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from trtsmith.converter.base.progress import notes_of
from trtsmith.converter.compile.logged import Say, SetupError
from trtsmith.converter.compile.package_folder import PackageFolder
from trtsmith.converter.compile.sdk import sdk_folder
from trtsmith.converter.engine.builder.gpu import find_gpus
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.importers.problem import Problem

WORKER = "trtsmith.converter.compile.triton_kernels.kernel_worker"

TIMEOUT_S = 900.0
"""For one kernel. One variant takes Triton a tenth of a second, and a large one a minute."""

_LISTS = re.compile(r"set\(TRTSMITH_(RELEASE_CUDA_ARCHITECTURES|CUDA_ARCHITECTURE_WITHOUT_GPU) ([0-9 ]+)\)")


def architectures(asked: str) -> tuple[int, ...]:
    """Returns compute capabilities without a point, from "86,90", "release" or "", by the lists that CMake has.

    "" stands for those of the GPUs here, or for the one of machines without a GPU.
    """
    text = (sdk_folder() / "cmake" / "CudaArchitectures.cmake").read_text(encoding="utf-8")
    lists = {match[1]: match[2] for match in _LISTS.finditer(text)}
    release = lists["RELEASE_CUDA_ARCHITECTURES"]
    gpus = sorted(gpu.compute_capability for gpu in find_gpus()) if not asked else []
    here = ",".join(f"{major}{minor}" for major, minor in gpus if (major, minor) >= (7, 5))
    chosen = release if asked == "release" else asked or here or lists["CUDA_ARCHITECTURE_WITHOUT_GPU"]
    numbers = (re.sub(r"\D", "", part) for part in re.split(r"[,; ]+", chosen))
    # CMake says what is no architecture.
    return tuple(dict.fromkeys(int(number) for number in numbers if number))


def build_triton_kernels(
    package: PackageFolder, env: Mapping[str, str], asked: str, cuda: int, say: Say
) -> None:
    """Writes triton/<snake>_triton.cpp, in the build folder, for every kernel that is written in Triton.

    asked: the architectures, as `architectures` takes them. cuda: major version of the toolkit.

    Raises UsageError or ConversionError with what is wrong with a kernel, and SetupError where one ends its process.
    """
    kernels = package.triton_kernels()
    if not kernels:
        return
    folder = package.triton
    folder.mkdir(parents=True, exist_ok=True)
    wanted = architectures(asked or env.get("TRTSMITH_CUDA_ARCHITECTURES", ""))
    for operator, file in kernels.items():
        request = {
            "root": str(package.root),
            "operator": operator,
            "kernel": str(package.root / "kernels" / file),
            "folder": str(folder),
            "architectures": wanted,
            "cuda": cuda,
        }
        log = folder / f"{operator}.log"
        try:
            made = run_child(
                WORKER, json.dumps(request), "tensorrt", timeout_s=TIMEOUT_S, log_path=log, on_progress=say
            )
        except ChildDied as death:
            raise SetupError(_death(file, death, log)) from death
        notes_of(say)(f"{operator}: {made['images']} binaries of {made['bytes'] / 1024:.0f} KiB from {file}")
        for note in made["notes"]:
            notes_of(say)(note)


def _death(file: str, death: ChildDied, log: Path) -> Problem:
    return Problem(
        f"compiling {file} {'took too long: it ' if death.timed_out else ''}{death.how} while {death.phase}",
        f"what it printed is in {log}",
        "a module that can be imported, and a kernel that Triton compiles",
        "look for a loop without an end in the module, and for what the log says",
    )

"""Finds a CUDA compiler that works: the machine's, else the one on PyPI. Fetches nothing by itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import notes_of
from trtsmith.converter.compile.logged import Say, SetupError, say

# 12.0 is the first whose nvcc takes -std=c++20 and knows every architecture of the developer default.
OLDEST = (12, 0)

# The compiler as PyPI serves it: 271 MB in site-packages/nvidia/cu13, of which libcudart_static.a is linked in.
# They are one release: mixed versions of crt, nvvm and nvcc miscompile or refuse.
WHEELS = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
)

PROBE = "#include <cuda_runtime.h>\n__global__ void probe(int* p) { *p = 1; }\nvoid f(int* p) { probe<<<1, 1>>>(p); }\n"


@dataclass(frozen=True)
class Toolkit:
    """One CUDA compiler. `root` is the folder that holds bin/ and include/ (nvcc's own idea of it)."""

    nvcc: Path
    root: Path
    version: tuple[int, int]

    @property
    def include(self) -> Path:
        return next(
            (p for p in (self.root / "include", *self.root.glob("targets/*/include")) if p.is_dir()),
            self.root,
        )

    @property
    def wheel_library_dir(self) -> Path | None:
        """Returns root/lib without a root/lib64, as in PyPI's wheels: nvcc.profile does not look there by itself."""
        library_dir = self.root / "lib"
        return library_dir if not (self.root / "lib64").exists() and library_dir.is_dir() else None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables that make CMake, and nvcc run by hand, use this compiler. env: the present environment."""
        found = {"CUDACXX": str(self.nvcc), "TRTSMITH_CUDA_INCLUDE": str(self.include)}
        if self.wheel_library_dir is not None:
            flag = f"-L{self.wheel_library_dir}"
            given = env.get("NVCC_APPEND_FLAGS", "")
            found["NVCC_APPEND_FLAGS"] = given if flag in given.split() else f"{given} {flag}".strip()
        return found

    def cmake_defines(self) -> dict[str, str]:
        """Works around FindCUDAToolkit, which needs an unversioned libcudart.so that wheels lack and nothing links."""
        if self.wheel_library_dir is None:
            return {}
        shared = sorted(self.wheel_library_dir.glob("libcudart.so*"))
        return {"CUDA_CUDART": str(shared[0])} if shared else {}


def candidates(
    env: Mapping[str, str], site_packages: Iterable[Path], system: Path = Path("/")
) -> Iterator[Path]:
    """Lists the places of nvcc, best first. TRTSMITH_CUDA is `pypi` (only the wheels), a toolkit's folder, or unset."""
    asked = env.get("TRTSMITH_CUDA", "")
    if asked not in ("", "pypi"):
        yield Path(asked) / "bin" / "nvcc"
        return
    if not asked:
        if env.get("CUDACXX"):
            yield Path(env["CUDACXX"])
        on_path = shutil.which("nvcc", path=env.get("PATH", ""))
        if on_path:
            yield Path(on_path)
        for name in ("CUDA_HOME", "CUDA_PATH"):
            if env.get(name):
                yield Path(env[name]) / "bin" / "nvcc"
        yield system / "usr/local/cuda/bin/nvcc"
    for folder in site_packages:
        yield folder / "nvidia" / "cu13" / "bin" / "nvcc"


def inspect(nvcc: Path) -> Toolkit | None:
    """Asks an nvcc for its version. None if it is missing or does not answer like nvcc."""
    try:
        version = _output([str(nvcc), "--version"])
        dry = _output([str(nvcc), "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull])
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"release (\d+)\.(\d+)", version)
    top = re.search(r"^#\$ TOP=(.+)$", dry, re.MULTILINE)
    if release is None:
        return None
    root = Path(top.group(1).strip()) if top else nvcc.resolve().parents[1]
    return Toolkit(nvcc, Path(os.path.normpath(root)), (int(release.group(1)), int(release.group(2))))


def probe(toolkit: Toolkit, env: Mapping[str, str]) -> str | None:
    """Compiles and links one kernel with a static runtime. Returns None if that works, else nvcc's last line."""
    with ScratchFolder("nvcc") as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(PROBE)
        argv = [str(toolkit.nvcc), "-shared", "-cudart", "static", "-Xcompiler", "-fPIC"]
        if env.get("CXX"):
            argv += ["-ccbin", env["CXX"]]
        try:
            done = subprocess.run(
                [*argv, "-o", str(Path(folder) / "probe.so"), str(source)],
                env={**env, **toolkit.environment(env)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    lines = (done.stderr + done.stdout).strip().splitlines()
    return None if done.returncode == 0 else (lines[-1] if lines else f"exit code {done.returncode}")


def find(
    env: Mapping[str, str], site_packages: Iterable[Path], trusted: Iterable[str] = (), say: Say = say
) -> Toolkit | None:
    """Returns the first candidate that is new enough and compiles. None if there is none and the wheels must be installed.

    trusted: `identity` strings of toolkits whose probe passed before (the probe takes two seconds).
    Raises SetupError if TRTSMITH_CUDA names a toolkit that does not do.
    """
    known = set(trusted)
    for nvcc in candidates(env, site_packages):
        toolkit = inspect(nvcc)
        why = "no working nvcc is there"
        if toolkit is not None:
            why = f"it is {toolkit.version[0]}.{toolkit.version[1]}, older than {OLDEST[0]}.{OLDEST[1]}"
            if toolkit.version >= OLDEST:
                failed = None if identity(toolkit, env) in known else probe(toolkit, env)
                if failed is None:
                    return toolkit
                why = f"it cannot compile a kernel ({failed})"
        if env.get("TRTSMITH_CUDA", "") not in ("", "pypi"):
            raise SetupError(
                f"TRTSMITH_CUDA names a CUDA toolkit that cannot be used: {why}.",
                str(nvcc),
                f"a toolkit's folder, with bin/nvcc {OLDEST[0]}.{OLDEST[1]} or newer and libcudart_static.a",
                "correct TRTSMITH_CUDA, or set it to pypi to use the compiler from PyPI",
            )
        if toolkit is not None:
            notes_of(say)(f"not using {nvcc}: {why}")
    return None


def identity(toolkit: Toolkit, env: Mapping[str, str]) -> str:
    """Returns what a passed probe depends on: the compiler, its release, its file's age and the host compiler."""
    return f"{toolkit.nvcc} {toolkit.version} {toolkit.nvcc.stat().st_mtime_ns} {env.get('CXX', '')}"


def site_packages_of(prefix: Path) -> list[Path]:
    return sorted(prefix.glob("lib/python3.*/site-packages"))


def importable_folders() -> list[Path]:
    return [Path(entry) for entry in sys.path if entry]


def _output(argv: list[str]) -> str:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr

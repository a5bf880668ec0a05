"""Records the machine of a measurement: GPU, driver and packages."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

FRAMEWORKS = ("numpy", "ml_dtypes", "onnx", "onnxruntime", "torch", "torchvision", "triton")
RUNTIMES = ("tensorrt", "tensorrt-rtx-cu13", "cuda-core", "cuda-bindings")

LIMIT_S = 20.0
"""For one question to a tool."""


def describe(root: Path, libraries: list[Path], commit: str | None) -> dict[str, Any]:
    """Describes machine, driver, CUDA, versions, commit and date. commit: where the checkout travelled without its
    history.
    """
    gpu, driver, memory, capability = _gpu()
    return {
        "gpu": gpu,
        "compute_capability": capability,
        "gpu_memory": memory,
        "driver": driver,
        "cuda_compiler": _first(r"release (\S+),", _said("nvcc", "--version")),
        "compute_sanitizer": _first(r"Version (\S+)", _said("compute-sanitizer", "--version")),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in (*FRAMEWORKS, *RUNTIMES)},
        "commit": commit or commit_of(root),
        "libraries": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in libraries},
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def clocks() -> dict[str, float] | None:
    """Returns the first GPU's present clocks in MHz, their maxima, its temperature and power; None if unknown."""
    names = {
        "sm_mhz": "clocks.sm",
        "max_sm_mhz": "clocks.max.sm",
        "memory_mhz": "clocks.mem",
        "max_memory_mhz": "clocks.max.mem",
        "temperature_c": "temperature.gpu",
        "power_w": "power.draw",
    }
    parts = _query(",".join(names.values()), "csv,noheader,nounits")
    try:
        return dict(zip(names, map(float, parts), strict=True)) if parts else None
    except ValueError:  # "[N/A]", on GPUs that do not tell
        return None


def slug(gpu: str) -> str:
    """Makes a folder name for a GPU: "NVIDIA H200" is h200."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia ")).strip("-") or "unknown"


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Lists the GPUs that a program may use, as in CUDA_VISIBLE_DEVICES; the first one if they are not listed."""
    asked = environment.get("CUDA_VISIBLE_DEVICES", "")
    if asked:
        return asked.split(",")
    return [str(number) for number in range(len(_said("nvidia-smi", "--list-gpus").splitlines()))] or ["0"]


def commit_of(root: Path) -> str:
    """Returns the commit of a checkout, and whether files are changed; "unknown" without its history.

    Records that are not committed yet are no change of what is measured.
    """
    head = _said("git", "-C", str(root), "rev-parse", "HEAD").strip()
    asked = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks")
    changed = _said("git", "-C", str(root), *asked).strip()
    return head + (" with changes" if changed else "") if head else "unknown"


def _gpu() -> tuple[str, str, str, str]:
    parts = _query("name,driver_version,memory.total,compute_cap", "csv,noheader")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else ("unknown", "", "", "")


def _query(properties: str, form: str) -> list[str]:
    """What nvidia-smi says of the first GPU; [] if nothing."""
    said = _said("nvidia-smi", f"--query-gpu={properties}", f"--format={form}")
    return [part.strip() for part in said.splitlines()[0].split(",")] if said.strip() else []


def _said(*command: str) -> str:
    """The command's output; empty where it is missing, fails or takes too long."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout if ended.returncode == 0 else ""


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

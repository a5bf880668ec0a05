"""Lists the TensorRTs with a testable registry, and installs them: the pins of lean_wheels.txt."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from envsetup import ROOT
from envsetup.wheels import fetch, pinned

PINS = Path(__file__).with_name("lean_wheels.txt")
CACHE = ROOT / ".cache" / "lean" / f"cp{sys.version_info.major}{sys.version_info.minor}"

RTX = "TensorRT-RTX"
"""The installed TensorRT-RTX, as it is called among the versions."""

IN_TESTS = ("10.15.1.29", "11.0.0.114", "11.4.0.106")
"""What `make test` asks beside TensorRT-RTX, 44 MB each: the oldest there is, and the first and the last of 11."""


def versions() -> tuple[str, ...]:
    """Every testable TensorRT, the oldest first and TensorRT-RTX last."""
    return (*pinned(PINS), RTX)


def module_and_folder(version: str) -> tuple[str, str]:
    """A TensorRT's Python module and its folder ("": installed). Raises SetupError if pip fails."""
    if version == RTX:
        return "tensorrt_rtx", ""
    lines: Mapping[str, tuple[str, ...]] = pinned(PINS)
    return "tensorrt_lean_bindings", str(fetch(version, lines[version], CACHE))

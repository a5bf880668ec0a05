"""Loads aarch64 libraries in QEMU: with an old C library, and into the plugin registries of TensorRT."""

from __future__ import annotations

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from envsetup.aarch64_packages import fetched
from envsetup.native import LIBRARIES
from realregistries.registry_answers import ask
from realregistries.registry_questions import questions

TENSORRTS = ("10.15.1.29", "11.4.0.106")
"""NVIDIA's lean runtimes for aarch64: the oldest and the newest that are not stubs."""

SECONDS = 3600
"""For one registry; it takes a minute to half an hour by how much else the machine does."""


def load_on_debian_11(folder: Path) -> list[str]:
    """Problems of loading the libraries in a folder with the C library of the compiler's Debian."""
    root = fetched("compiler") / "usr/aarch64-linux-gnu"
    asked = ("LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=yes", "LD_BIND_NOW=yes", f"LD_LIBRARY_PATH={root / 'lib'}")
    command = [_qemu(), "-L", str(root), *(word for one in asked for word in ("-E", one))]
    faults = []
    for name in LIBRARIES:
        run = [*command, str(root / "lib/ld-linux-aarch64.so.1"), str(folder / name)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        lines = (done.stdout + done.stderr).splitlines()
        wrong = [line.strip() for line in lines if "not found" in line or "undefined" in line]
        faults += [f"{name}: {line}" for line in wrong or ([] if "libc.so.6" in done.stdout else lines)]
    return faults


def registry_answers(version: str, folder: Path) -> dict[str, Any]:
    """The answers of realregistries.ask, for the libraries in a folder and one of TENSORRTS."""
    asked = {name: {**of, "path": str(folder / Path(of["path"]).name)} for name, of in _questions().items()}
    root = fetched("emulator")
    python = [_qemu(), "-L", str(root), "-E", f"PYTHONHOME={root / 'usr'}", str(root / "usr/bin/python3.11")]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        return ask(version, Path(file.name), SECONDS, python, _bindings, str(root))


def _bindings(version: str) -> tuple[str, str]:
    return "tensorrt_lean_bindings", str(fetched(f"tensorrt-{version}"))


@cache
def _questions() -> dict[str, Any]:
    """The questions for this machine's libraries, which those for aarch64 must answer alike."""
    return questions()


def _qemu() -> str:
    return str(fetched("emulator") / "usr/bin/qemu-aarch64-static")

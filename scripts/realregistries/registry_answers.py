"""Queries one TensorRT in a child process, and sums up the answers of several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envsetup import ROOT
from realregistries.lean_wheels import module_and_folder
from trtsmith.converter.base.printable import table

CHILD = Path(__file__).with_name("registry_child.py")
COUNTS = ("cases", "plugins", "refusals", "comparisons")


def ask(
    version: str,
    questions: Path,
    timeout_s: float = 120,
    python: Sequence[str] = (sys.executable,),
    bindings: Callable[[str], tuple[str, str]] | None = None,
    packages: str | None = None,
) -> dict[str, Any]:
    """The answers of one TensorRT's registry, from registry_child; their faults may include the child's death.

    python: what runs it. bindings: gives the module and the folder of a version. packages: a folder with what that Python
    needs. Raises SetupError if the TensorRT is not here and cannot be fetched.
    """
    command = [*python, str(CHILD), *(bindings or module_and_folder)(version), str(questions)]
    paths = (packages, str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, text=True, env=environment
        )
        try:
            out, _ = process.communicate(timeout=timeout_s)
            end = _ended(process.returncode)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            end = f"did not end within {timeout_s:.0f} s"
        said.seek(0)
        words = said.read().decode(errors="replace")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    found = next((line["answers"] for line in lines if "answers" in line), None)
    faults = [line["fault"] for line in lines if "fault" in line]
    if found is not None and not end:
        return {**found, "faults": faults}
    doing = next((line["doing"] for line in reversed(lines) if "doing" in line), "starting")
    death = f"the process {end or 'gave no answers'}; it was at: {doing}; its last words:\n{words[-2000:]}"
    return {
        "version": version,
        "asked": {},
        "second_library": {},
        "by_the_converter": 0,
        "faults": [*faults, death],
    }


def _ended(code: int) -> str:
    if code < 0:
        return f"ended with {signal.Signals(-code).name}"
    return f"ended with exit code {code}" if code else ""


def totals(answers: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Sums over the operators, by interface."""
    return {
        interface: {
            "operators": len(counts),
            **{name: sum(one[name] for one in counts.values()) for name in COUNTS},
        }
        for interface, counts in answers["asked"].items()
    }


def summary(answers: Mapping[str, Any]) -> str:
    """A table of several TensorRTs' answers, a line each; answers: by version."""
    header = ("TensorRT", "library", "operators", *COUNTS, "faults")
    lines: list[tuple[str, ...]] = [header]
    for version, found in answers.items():
        name = version if version == found["version"] else f"{version} {found['version']}"
        for interface, count in (totals(found) or {"none": {}}).items():
            counts = [f"{count.get(column, 0):,}" for column in header[2:-1]]
            lines.append((name, interface, *counts, str(len(found["faults"]))))
    return table(lines)

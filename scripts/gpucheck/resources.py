"""Reads registers, stack and shared memory of every kernel in a library from cuobjdump."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpucheck.processes import run_boxed
from gpucheck.record import Notes


@dataclass(frozen=True)
class Usage:
    """One kernel for one architecture. stack: bytes a thread; it holds what was spilled. local: bytes of local memory."""

    architecture: str
    kernel: str
    registers: int
    stack: int
    shared: int
    local: int


KNOWN_STACKS = {
    # Spilled: a bound on registers that admits another block costs a few values, and was faster so.
    r"tiled::convolutionKernel<float, (64|256)>": 64,
    r"tiled::pipelineKernel": 32,  # 16 of them unused, and 4 to 16 spilled by some
    r"attentionKernel<OffsetSamples<float>, 4>": 8,
    r"groupedWordKernel<\w+, [89]>": 8,
    r"poolKernel<": 8,
    r"softKernel<": 8,
    r"regionWordKernel<float,": 24,
    r"prepareKernel<": 32,
    r"sortRowsKernel<": 16,
    r"turnedKernel<float, 4>": 16,
    r"sparse::tiledKernel<": 56,
    # Digits of 2 / pi, which sine and cosine of a float index when they reduce a large angle.
    r"regionKernel<\w+, \d, 2>": 40,
    r"itemsKernel<\w+, [12], Boxes<": 40,
    r"selectKernel<\w+, [12]>": 32,
    # Levels of a pyramid, in the order that a box needs them.
    r"regionKernel<\w+, 0, 3>": 112,
    r"regionLayoutKernel<": 136,
}
"""Bytes allowed by kernel (docs/maintainers/kernel-notes.md). All others: none."""


def parse(output: str) -> list[Usage]:
    """What `cuobjdump -res-usage` prints."""
    architecture = kernel = ""
    found = []
    for line in output.splitlines():
        if match := re.match(r"\s*arch = (\S+)", line):
            architecture = match[1]
        elif match := re.match(r"\s*Function (\S+?):?\s*$", line):
            kernel = match[1]
        elif "REG:" in line and kernel:
            numbers = {name: int(value) for name, value in re.findall(r"\b([A-Z]+):(\d+)", line)}
            found.append(
                Usage(
                    architecture,
                    kernel,
                    numbers["REG"],
                    numbers.get("STACK", 0),
                    numbers.get("SHARED", 0),
                    numbers.get("LOCAL", 0),
                )
            )
            kernel = ""
    return found


def check(library: Path, notes: Notes) -> None:
    """A kernel with a stack or local memory is a failure, but for the known ones."""
    tool = shutil.which("cuobjdump")
    if tool is None:
        notes.failure("cuobjdump is not on the PATH")
        notes.summary("not run")
        return
    ended = run_boxed([tool, "-res-usage", str(library)], 60)
    usages = parse(ended.output)
    names = _demangled([usage.kernel for usage in usages])
    for usage, name in zip(usages, names, strict=True):
        notes.row(
            architecture=usage.architecture,
            kernel=name,
            registers=usage.registers,
            stack=usage.stack,
            shared=usage.shared,
            local=usage.local,
        )
        allowed = next((limit for known, limit in KNOWN_STACKS.items() if re.search(known, name)), 0)
        if usage.stack > allowed or usage.local:
            notes.failure(
                f"{usage.architecture} {name}: stack {usage.stack}, local memory {usage.local} bytes"
            )
    if ended.problem or not usages:
        notes.failure(f"cuobjdump {ended.problem or 'names no kernel'}")
    most = max((usage.registers for usage in usages), default=0)
    notes.summary(f"{len(usages)} kernels in {library.name}, at most {most} registers")


def _demangled(names: list[str]) -> list[str]:
    """A demangled name with the parameter list cut off, which says nothing that the template arguments do not."""
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if tool is None or not names:
        return names
    lines = run_boxed([tool, *names], 30).output.splitlines()
    if len(lines) != len(names):
        return names
    return [
        re.sub(
            r"\(anonymous namespace\)::|<unnamed>::|trtsmith::|\((?:[\w ]|::)+\)(?=\d)", "", line
        ).partition("(")[0]
        for line in lines
    ]

"""Runs compute-sanitizer over all small cases and the benchmarks' sizes, in many processes at once."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpucheck.kernels import RAN, chosen
from gpucheck.record import Notes
from harness.processes import Ended, run_boxed
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

SCRIPT = Path(__file__).resolve().parents[1] / "gpu_check.py"

FOUND = 9
"""Exit code with which compute-sanitizer says that it found something."""

ENGINES = "engines"
"""All small cases inside engines."""

PARTS = 4
"""Runs of a tool, each with its part of the operators: one for all of them takes many minutes."""


@dataclass(frozen=True)
class Tool:
    """A tool of compute-sanitizer with its options.

    cases: which kernels run, as gpucheck.kernels names them; or ENGINES.
    fault: whether they have a planted fault that must be found; else nothing must be found.
    """

    name: str
    arguments: tuple[str, ...]
    cases: str = "small"
    fault: bool = False


TOOLS = (
    Tool("memcheck", ("--tool", "memcheck")),
    Tool("memcheck, allocations padded", ("--tool", "memcheck", "--padding", "32")),
    Tool("racecheck", ("--tool", "racecheck", "--racecheck-report", "all")),
    Tool("initcheck", ("--tool", "initcheck")),
    # synccheck's own estimate of a block's barriers is too low for kernels with clusters.
    Tool("synccheck", ("--tool", "synccheck", "--num-cuda-barriers", "1024")),
    Tool("memcheck, large", ("--tool", "memcheck"), "large"),
    Tool("racecheck, wide", ("--tool", "racecheck", "--racecheck-report", "all"), "wide"),
    Tool("memcheck finds a short output", ("--tool", "memcheck"), "overflow", fault=True),
    Tool("initcheck finds an unwritten input", ("--tool", "initcheck"), "unwritten", fault=True),
)

ENGINE_TOOLS = (
    Tool("memcheck, inside engines", ("--tool", "memcheck", "--report-api-errors", "no"), ENGINES),
)
"""The process that is watched builds the engines, too: TensorRT's own kernels run in it, and are watched with ours. Errors
of calls are not asked for: CUDA's Python package asks the driver for functions that it may lack."""


@dataclass(frozen=True)
class WatchedRun:
    """One process: a tool over some operators, by name."""

    tool: Tool
    operators: tuple[str, ...]


def runs_of(tool: Tool, ops: Sequence[OpDef] = OPS) -> list[WatchedRun]:
    """Parts with similar numbers of cases; a single operator for a planted fault, and one operator each inside engines."""
    if tool.fault:
        # A short output shows where a kernel writes each element; of integers some operators write few.
        return [WatchedRun(tool, (next((op for op in ops if op.tolerance), ops[0]).name,))]
    parts = len(ops) if tool.cases == ENGINES else PARTS
    cases = {op.name: len(chosen(op, "small" if tool.cases == ENGINES else tool.cases)) for op in ops}
    falling = sorted((name for name in cases if cases[name]), key=lambda name: -cases[name])
    return [WatchedRun(tool, tuple(falling[part::parts])) for part in range(min(parts, len(falling)))]


def command(run: WatchedRun, references: Path) -> list[str]:
    """Options that end the run in FOUND for any finding."""
    sanitizer = shutil.which("compute-sanitizer") or "compute-sanitizer"
    program = [sys.executable, str(SCRIPT), "--run-kernels", run.tool.cases, "--folder", str(references)]
    options = [*run.tool.arguments, "--error-exitcode", str(FOUND), "--print-limit", "20"]
    return [sanitizer, *options, *program, "--operators", *run.operators]


def findings(output: str) -> int | None:
    """The number in the tool's last summary line; None if there is none."""
    numbers = re.findall(r"^=+ \w+ SUMMARY: (\d+) (?:error|hazard|warning)", output, re.MULTILINE)
    return int(numbers[-1]) if numbers else None


def summary_line(output: str) -> str:
    lines = [line.strip("= ") for line in output.splitlines() if " SUMMARY: " in line]
    return lines[-1] if lines else "no summary"


def judge(tool: Tool, ended: Ended) -> str | None:
    """The fault of a run, or None."""
    found = findings(ended.output)
    if ended.code is None:
        return ended.problem
    if found is None:
        return f"no summary; the run {ended.problem or 'ended well'}"
    if tool.fault:  # after a fault the CUDA context is lost, and so the program may not end well
        return None if found else f"the planted fault was not found: {summary_line(ended.output)}"
    if found or ended.code != 0:
        said = [line for line in ended.output.splitlines() if line.strip("= ")]
        return f"{summary_line(ended.output)}, exit code {ended.code}: " + " / ".join(said[:12])
    if not re.search(rf"^[1-9]\d* {RAN}, 0 wrong$", ended.output, re.MULTILINE):
        return "the kernels were not run to the end"
    return None


def check(folder: Path, limit_s: float, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Runs the step. folder: of the cases' stored results (references.py)."""
    _run_tools(TOOLS, folder, limit_s, notes, ops)


def check_engines(folder: Path, limit_s: float, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Runs the step on the cases inside engines."""
    _run_tools(ENGINE_TOOLS, folder, limit_s, notes, ops)


def _run_tools(
    tools: Sequence[Tool], folder: Path, limit_s: float, notes: Notes, ops: Sequence[OpDef]
) -> None:

    def end(run: WatchedRun) -> Ended:
        try:
            return run_boxed(command(run, folder), limit_s)
        except OSError as error:
            return Ended(None, "", 0.0, f"compute-sanitizer could not be started: {error}")

    runs = [run for tool in tools for run in runs_of(tool, ops)]
    with ThreadPoolExecutor(max(os.cpu_count() or 1, len(tools) * PARTS)) as pool:
        for run, ended in zip(runs, pool.map(end, runs), strict=True):
            problem = judge(run.tool, ended)
            ran = re.search(rf"(\d+) {RAN}", ended.output)
            notes.row(
                tool=run.tool.name,
                options=" ".join(run.tool.arguments),
                operators=list(run.operators),
                summary=summary_line(ended.output),
                kernels=int(ran[1]) if ran else 0,
                seconds=ended.seconds,
                ok=problem is None,
            )
            if problem:
                notes.failure(f"{run.tool.name}, {', '.join(run.operators)}: {problem}")
    planted = sum(tool.fault for tool in tools)
    notes.summary(f"{len(tools)} tools in {len(runs)} runs, of which {planted} with a planted fault")

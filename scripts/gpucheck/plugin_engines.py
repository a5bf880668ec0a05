"""Runs every operator's cases inside engines: its plugin between TensorRT's own layers, in every type, by every route."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from gpucheck.engines import EngineError, check_built
from gpucheck.plugin_trials import Arrays, Trial, TrialComparison, groups, model_of, sizes_of_all, trials_of
from gpucheck.record import Notes
from harness.jobs import RETIRE, run_jobs
from onnxcoverage.builder import GPU_TARGET, build_engine
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.session import Session
from trtsmith.converter.plugin.cases import type_choices
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import by_name

STATIC = "static shapes"
DYNAMIC = "dynamic shapes"
GRAPH = "CUDA graph"
STREAMS = "two contexts on two streams"
EMBEDDED = "library embedded"
ROUTES = (STATIC, DYNAMIC, GRAPH, STREAMS, EMBEDDED)

JOB_S = 150.0
"""For one operator in one choice of types; most take 5."""

WORKER = __name__
"""The module whose `work` runs in the workers."""


def check(folder: Path, limit_s: float, notes: Notes, ops: Sequence[OpDef]) -> None:
    """Runs the step. A row for each operator, choice of types, route and class of cases; fails for any wrong case."""
    end = time.monotonic() + limit_s
    names = [f"{op.name}:{number}" for op in ops for number in range(len(type_choices(op)))]
    jobs = deque(f"{step}:{name}" for step in ("run", "embed") for name in names)
    workers = os.cpu_count() or 1
    counts: Counter[str] = Counter()
    rows = []
    # What was embedded is loaded by processes that never loaded the library themselves.
    for more in (jobs, deque(f"load:{name}" for name in names)):
        for job, finding in run_jobs(WORKER, more, workers, JOB_S, folder, end):
            for row in finding.found.get("rows", []):
                rows.append(row)
                counts.update({"cases": row["cases"], "passed": row["passed"]})
            for text in finding.found.get("failures", []):
                notes.failure(text)
            if finding.died:
                notes.failure(f"{job}: {finding.died}")
    for row in sorted(
        rows, key=lambda row: (row["op"], row["types"], ROUTES.index(row["route"]), row["kind"])
    ):
        notes.row(**row)
    notes.summary(f"{counts['passed']} of {counts['cases']} runs of cases inside engines are right")


def work(job: str, folder: Path) -> dict[str, Any]:
    """Runs a job: "run:OPERATOR:NUMBER" for a choice of types; embed and load: with the library in the plan."""
    step, name, number = job.split(":")
    op = by_name()[name]
    types = type_choices(op)[int(number)]
    plan = folder / f"{name}-{number}.plan"
    if step == "run":
        trials = tuple(trials_of(op, types))
        return TrialComparison(op, types).report(
            (STATIC, run_static(trials, folder)), *run_dynamic(trials, folder)
        )
    # Of all cases one is enough: what is tried is where the kernel comes from.
    trial = next(trial for trial in trials_of(op, types) if trial.case.kind == "ordinary")
    if step == "embed":
        plan.write_bytes(built((trial,), folder, dynamic=False, embed=True))
        return {}
    found = TrialComparison(op, types).report((EMBEDDED, run_embedded(trial, plan)))
    return found | {RETIRE: True}  # the library that came with the plan stays in this process


def built(trials: Sequence[Trial], folder: Path, *, dynamic: bool, embed: bool = False) -> bytes:
    """An engine for these cases. Raises EngineError."""
    model = model_of(trials, dynamic=dynamic)
    path = folder / f"{os.getpid()}.onnx"
    onnx.save(model, path)
    sizes = {
        value.name: sizes_of_all([t.feeds[value.name].shape for t in trials]) for value in model.graph.input
    }
    return check_built(build_engine(path, sizes, plugins=True, embed=embed, target=GPU_TARGET))


def run_static(trials: Sequence[Trial], folder: Path) -> Iterator[tuple[Trial, Any]]:
    """Runs an engine for each case."""
    for trial in trials:
        yield trial, _attempt(_run_alone, trial, folder)


def run_dynamic(trials: Sequence[Trial], folder: Path) -> Iterator[tuple[str, Iterator[tuple[Trial, Any]]]]:
    """Runs one engine for all cases with the same fields; its profile spans the cases.

    The same engine runs in a CUDA graph, and in two contexts on two streams at once.
    """
    found: dict[str, list[tuple[Trial, Any]]] = {DYNAMIC: [], GRAPH: [], STREAMS: []}
    for group in groups(trials):
        try:
            runner = _open(built(group, folder, dynamic=True))
        except (EngineError, TrtsmithError) as error:
            found[DYNAMIC] += [(trial, str(error).splitlines()[0]) for trial in group]
            continue
        with runner:
            session = runner.session()
            found[DYNAMIC] += [(t, _attempt(_read, session, t)) for t in group]
            if not group[0].op.data_dependent:  # their sizes are read between kernels: nothing to capture
                graph = runner.session(cuda_graph=True)
                found[GRAPH] += [(t, _attempt(_replayed, graph, t)) for t in group]
            found[STREAMS] += _side_by_side(runner, group)
    yield from ((route, iter(runs)) for route, runs in found.items())


def run_embedded(trial: Trial, plan: Path) -> Iterator[tuple[Trial, Any]]:
    """Runs engines in a process that has not loaded the plugin library."""
    yield trial, _attempt(_run_plan, trial, plan)


def run_watched(operators: Sequence[str], folder: Path) -> tuple[int, list[str]]:
    """Runs all small cases of these operators for compute-sanitizer, in dynamic engines and in every type of the key.

    Returns how many outputs were right, and what is wrong with the others.
    """
    passed, failures = 0, []
    for op in (by_name()[name] for name in operators):
        for types in {types[op.key]: types for types in type_choices(op)}.values():
            found = TrialComparison(op, types).report(*run_dynamic(tuple(trials_of(op, types)), folder))
            passed += sum(row["passed"] for row in found["rows"])
            failures += found["failures"]
    return passed, failures


def _run_plan(trial: Trial, plan: Path) -> Arrays:
    with Runner.open(plan, flavour="tensorrt_rtx", embedded_plugins=True) as runner:
        return _read(runner.session(), trial)


def _attempt(run: Callable[..., Arrays], *arguments: Any) -> Arrays | str:
    try:
        return run(*arguments)
    except (EngineError, TrtsmithError) as error:
        return str(error).splitlines()[0]


def _run_alone(trial: Trial, folder: Path) -> Arrays:
    with _open(built((trial,), folder, dynamic=False)) as runner:
        return _read(runner.session(), trial)


def _open(plan: bytes) -> Runner:
    return Runner.open(plan, flavour="tensorrt_rtx")


def _read(session: Session, trial: Trial) -> Arrays:
    return {name: tensor.numpy() for name, tensor in session.infer(trial.feeds).items()}


def _replayed(session: Session, trial: Trial) -> Arrays:
    """The outputs of the third run, which replays the captured graph."""
    for _ in range(2):
        _read(session, trial)
    return _read(session, trial)


def _side_by_side(runner: Runner, group: Sequence[Trial]) -> Iterator[tuple[Trial, Any]]:
    """Runs each case beside the one before it, with both in flight at once."""
    first, second = runner.session(), runner.session()
    for one, other in zip((group[-1], *group[:-1]), group, strict=True):
        yield other, _attempt(_both, first, one, second, other)


def _both(first: Session, one: Trial, second: Session, other: Trial) -> Arrays:
    """Runs both cases at once; the outputs of the other."""
    first.infer(one.feeds, synchronise=False)
    found = second.infer(other.feeds, synchronise=False)
    first.synchronise()
    return {name: tensor.numpy() for name, tensor in found.items()}
